"""`python -m formwork …` is `formwork …`."""

import os
import subprocess
import sys

from . import binary

program = [binary(), *sys.argv[1:]]
if os.name == "nt":
    sys.exit(subprocess.run(program, check=False).returncode)
os.execv(program[0], program)
