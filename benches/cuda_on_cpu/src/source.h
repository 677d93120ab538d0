// From CUDA C++ to C++: see source.cpp.
#pragma once
#include <string>

// The source that g++ is given for a kernel's source. `arch` is the value of
// __CUDA_ARCH__.
std::string host_source(const std::string &source, unsigned arch);
