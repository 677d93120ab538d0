// From CUDA C++ to C++: see source.cpp.
#pragma once
#include <string>

// The source that g++ is given for a kernel's source. `arch` is the value of
// __CUDA_ARCH__.
std::string host_source(const std::string &source, unsigned arch);

// Where CUDA_ON_CPU_NVRTC names NVIDIA's library: why it does not compile a
// kernel's source, empty where it does. PTX goes to `base`.sm_X.ptx.
std::string refused_by_nvidia(const std::string &source, const std::string &base);
