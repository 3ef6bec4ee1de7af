/* What programs of OpenCL's first years expect of CL/cl.hpp, by the header that came after it. */
#define CL_HPP_ENABLE_SIZE_T_COMPATIBILITY
#define CL_HPP_TARGET_OPENCL_VERSION 120
#define CL_HPP_MINIMUM_OPENCL_VERSION 110
#define CL_HPP_ENABLE_EXCEPTIONS
#define CL_HPP_ENABLE_PROGRAM_CONSTRUCTION_FROM_ARRAY_COMPATIBILITY
#define CL_HPP_CL_1_2_DEFAULT_BUILD
#define VECTOR_CLASS std::vector
#define STRING_CLASS std::string
#include <CL/opencl.hpp>
#include <ostream>

namespace cl {
inline LocalSpaceArg __local(::size_t size) { return Local(size); }
}

/* `std::cerr << std::cout`, which printed an address before C++11. */
inline std::ostream &operator<<(std::ostream &stream, std::ostream &) { return stream; }
