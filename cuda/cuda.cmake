# The CUDA module, liblongshot_cuda.so: loaded at run time only where a driver has a device, so that a
# machine without a GPU neither needs nor pays for the CUDA libraries.
#
#   LONGSHOT_CUDA=AUTO  where a CUDA compiler of at least version 12 works, else the reason is given; part
#                       of the standard build where there is an NVIDIA driver, else built by name
#                       (target longshot_cuda), as it takes a minute that no one there profits from
#   LONGSHOT_CUDA=ON    part of the standard build, or the configuration fails
#   LONGSHOT_CUDA=OFF   not built
# CMAKE_CUDA_ARCHITECTURES chooses the devices (default 75, 80, 90 and PTX for later ones).

# A module built from another state of the interface is refused at run time.
set(longshot_backend_hash "")
foreach(header backend.h capture.h cuda_module.h)
  file(SHA256 ${CMAKE_SOURCE_DIR}/core/${header} one_hash)
  string(APPEND longshot_backend_hash ${one_hash})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/core/${header})
endforeach()
string(SHA256 longshot_backend_hash "${longshot_backend_hash}")
string(SUBSTRING ${longshot_backend_hash} 0 8 longshot_backend_hash)
set(LONGSHOT_BACKEND_FINGERPRINT 0x${longshot_backend_hash}u)
set_source_files_properties(${CMAKE_SOURCE_DIR}/core/device.cpp PROPERTIES
  COMPILE_DEFINITIONS LONGSHOT_BACKEND_FINGERPRINT=${LONGSHOT_BACKEND_FINGERPRINT})

set(longshot_cuda_problem "")
if(LONGSHOT_CUDA STREQUAL "OFF")
  set(longshot_cuda_problem "LONGSHOT_CUDA=OFF")
elseif(LONGSHOT_SANITIZE)
  set(longshot_cuda_problem "a build with sanitizers tests the kernels on the emulator")
else()
  # Before the language is enabled: otherwise nvcc's own default is taken silently.
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES "75-real;80-real;90" CACHE STRING "CUDA devices to build for")
  endif()
  if(NOT CMAKE_CUDA_HOST_COMPILER AND NOT DEFINED ENV{CUDAHOSTCXX} AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER} CACHE FILEPATH "nvcc's host compiler")
  endif()
  # The version first: an old toolkit often fails CMake's own trial as well (it does not know the host
  # compiler), and "does not work" would hide the reason.
  set(longshot_nvcc ${CMAKE_CUDA_COMPILER})
  if(NOT longshot_nvcc)
    find_program(LONGSHOT_NVCC NAMES $ENV{CUDACXX} nvcc PATHS ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
    mark_as_advanced(LONGSHOT_NVCC)
    set(longshot_nvcc ${LONGSHOT_NVCC})
  endif()
  set(nvcc_text "")
  if(longshot_nvcc)
    execute_process(COMMAND ${longshot_nvcc} --version OUTPUT_VARIABLE nvcc_text ERROR_QUIET)
  endif()
  if(nvcc_text MATCHES "release ([0-9]+\\.[0-9]+)" AND CMAKE_MATCH_1 VERSION_LESS 12.0)
    set(longshot_cuda_problem
        "CUDA ${CMAKE_MATCH_1} at ${longshot_nvcc} is too old: C++20 needs 12.0 or later")
  else()
    include(CheckLanguage)
    check_language(CUDA)
    if(NOT CMAKE_CUDA_COMPILER)
      set(longshot_cuda_problem "no working CUDA compiler (nvcc) was found")
    endif()
  endif()
  if(NOT longshot_cuda_problem)
    enable_language(CUDA)
    find_package(CUDAToolkit QUIET)
    if(NOT TARGET CUDA::cublas)
      set(longshot_cuda_problem "the CUDA toolkit at ${CMAKE_CUDA_COMPILER} has no cuBLAS")
    endif()
  endif()
endif()

if(longshot_cuda_problem)
  if(LONGSHOT_CUDA STREQUAL "ON")
    message(FATAL_ERROR "LONGSHOT_CUDA=ON: ${longshot_cuda_problem}")
  endif()
  message(STATUS "CUDA module: not built (${longshot_cuda_problem})")
  return()
endif()
message(STATUS "CUDA module: CUDA ${CMAKE_CUDA_COMPILER_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")

# CMake 3.25 and earlier know no C++20 flag for nvcc.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()

file(GLOB longshot_cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cuda/*.cu)
# Beside the kernels only what the interface itself needs: linking the core would make a second copy
# of its singletons.
add_library(longshot_cuda MODULE ${longshot_cuda_sources} ${CMAKE_SOURCE_DIR}/core/shape.cpp
            ${CMAKE_SOURCE_DIR}/core/backend.cpp)
if(LONGSHOT_CUDA STREQUAL "AUTO" AND NOT EXISTS /proc/driver/nvidia/version AND NOT EXISTS /dev/dxg)
  set_target_properties(longshot_cuda PROPERTIES EXCLUDE_FROM_ALL ON)
elseif(TARGET longshot)
  add_dependencies(longshot longshot_cuda)
endif()
set_target_properties(longshot_cuda PROPERTIES
  CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON
  CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
  CUDA_RUNTIME_LIBRARY Static
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
target_include_directories(longshot_cuda PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_definitions(longshot_cuda PRIVATE
  LONGSHOT_BACKEND_FINGERPRINT=${LONGSHOT_BACKEND_FINGERPRINT}
  # nvcc's front end does not take fmt's compile-time format checks.
  $<$<COMPILE_LANGUAGE:CUDA>:FMT_CONSTEVAL=> $<$<COMPILE_LANGUAGE:CUDA>:FMT_USE_CONSTEXPR=1>)
target_compile_options(longshot_cuda PRIVATE
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>
  "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Werror all-warnings>")
target_link_libraries(longshot_cuda PRIVATE fmt::fmt CUDA::cublas)
# Static libraries would export their symbols.
target_link_options(longshot_cuda PRIVATE -Wl,--exclude-libs,ALL)
