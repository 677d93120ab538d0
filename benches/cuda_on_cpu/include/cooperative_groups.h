// In prelude.h.
