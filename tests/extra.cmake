# The CUDA backend for tests: the same .cu files compiled as C++ against the emulator in
# tests/support/cuda_emulator, which stands first on the include path. Needs no nvcc.
set(emulator_folder ${CMAKE_CURRENT_SOURCE_DIR}/support/cuda_emulator)
file(GLOB emulator_sources CONFIGURE_DEPENDS ${emulator_folder}/*.cpp)
file(GLOB emulated_kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cuda/*.cu)
list(FILTER emulated_kernels EXCLUDE REGEX "/module\\.cu$")
set_source_files_properties(${emulated_kernels} PROPERTIES LANGUAGE CXX)

add_library(longshot_emulated_cuda OBJECT EXCLUDE_FROM_ALL ${emulator_sources} ${emulated_kernels})
target_link_libraries(longshot_emulated_cuda PRIVATE longshot_flags)
target_include_directories(longshot_emulated_cuda BEFORE PRIVATE ${emulator_folder})
# Lanes of a block read and write through pointers that the compiler must not assume unaliased
# across a context switch; calls to the scheduler are opaque, so plain -O2 is enough and compiles
# faster than the product's -O3.
target_compile_options(longshot_emulated_cuda PRIVATE -O2)

# Every test program may run on the emulated device.
foreach(folder core nn train cuda)
  if(TARGET test_${folder})
    target_sources(test_${folder} PRIVATE $<TARGET_OBJECTS:longshot_emulated_cuda>)
  endif()
endforeach()
if(TARGET test_cuda)
  target_compile_options(test_cuda PRIVATE -O1)
  target_include_directories(test_cuda BEFORE PRIVATE ${emulator_folder})
  foreach(order reverse random)
    add_test(NAME cuda_${order} COMMAND test_cuda)
    set_tests_properties(cuda_${order} PROPERTIES
      ENVIRONMENT "LONGSHOT_EMULATOR_ORDER=${order};OMP_NUM_THREADS=1")
  endforeach()
endif()

# The tests of operations, of kernels, of the model with every encoding, and of training once more, on the
# emulated device: what they do in f32 then runs there. Left out is what only the CPU has ([cpu]), the memory
# of evaluations of thousands of tokens ([memory]: the same heap whatever the device, and the emulator would
# take minutes), and what computes nothing. One OS thread: grids are small.
# longshot_emulated_test(PROGRAM NAME TESTS ORDERS...)
function(longshot_emulated_test program name tests)
  if(NOT TARGET test_${program})
    return()
  endif()
  foreach(order ${ARGN})
    add_test(NAME ${name}_cuda_${order} COMMAND test_${program} -\# "${tests}")
    set_tests_properties(${name}_cuda_${order} PROPERTIES ENVIRONMENT
      "LONGSHOT_TEST_BACKEND=cuda;LONGSHOT_EMULATOR_ORDER=${order};OMP_NUM_THREADS=1")
  endforeach()
endfunction()
# Of the files of a folder, as a filter of tests.
function(longshot_tests_of folder result)
  file(GLOB files RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}/${folder}
       CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*_test.cpp)
  list(APPEND files ${ARGN})
  list(TRANSFORM files REPLACE "(.*)\\.cpp" "[#\\1]~[cpu]")
  list(JOIN files "," files)
  set(${result} "${files}" PARENT_SCOPE)
endfunction()
longshot_tests_of(core/ops operation_tests network_test.cpp backend_parity_test.cpp)
longshot_tests_of(core/cpu kernel_tests)
longshot_emulated_test(core operations "${operation_tests}" forward reverse random)
longshot_emulated_test(core kernels "${kernel_tests}" random)
longshot_emulated_test(nn nn "~[memory]~[positions]~[registry]" forward reverse random)
longshot_emulated_test(train train "[train]~[memory]" forward)

# Counts calls of malloc by replacing it, which the sanitizers do themselves.
if(NOT LONGSHOT_SANITIZE)
  longshot_test(allocation)
endif()

# For the tests of the choice of a device: a driver and a module that fail on demand, and a module
# that works, on the emulator.
if(TARGET test_cuda)
  add_library(longshot_fake_driver MODULE EXCLUDE_FROM_ALL support/fake_cuda/driver.cpp)
  add_library(longshot_fake_module MODULE EXCLUDE_FROM_ALL support/fake_cuda/module.cpp)
  target_link_libraries(longshot_fake_module PRIVATE longshot_flags)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/cuda/module.cu PROPERTIES LANGUAGE CXX)
  add_library(longshot_emulated_module MODULE EXCLUDE_FROM_ALL
              $<TARGET_OBJECTS:longshot_emulated_cuda> ${CMAKE_SOURCE_DIR}/cuda/module.cu
              ${CMAKE_SOURCE_DIR}/core/shape.cpp ${CMAKE_SOURCE_DIR}/core/backend.cpp)
  target_link_libraries(longshot_emulated_module PRIVATE longshot_flags)
  target_include_directories(longshot_emulated_module BEFORE PRIVATE ${emulator_folder})
  target_compile_definitions(longshot_emulated_module PRIVATE
    LONGSHOT_BACKEND_FINGERPRINT=${LONGSHOT_BACKEND_FINGERPRINT})
  # Under the name by which the program asks for a driver, in a folder of its own.
  set_target_properties(longshot_fake_driver PROPERTIES PREFIX "" OUTPUT_NAME libcuda.so SUFFIX .1
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fake_driver)
  add_dependencies(test_cuda longshot_fake_driver longshot_fake_module longshot_emulated_module)
  if(TARGET longshot)
    add_dependencies(test_cuda longshot)
  endif()
  target_compile_definitions(test_cuda PRIVATE
    LONGSHOT_FAKE_DRIVER="$<TARGET_FILE:longshot_fake_driver>"
    LONGSHOT_FAKE_DRIVER_FOLDER="$<TARGET_FILE_DIR:longshot_fake_driver>"
    LONGSHOT_FAKE_MODULE="$<TARGET_FILE:longshot_fake_module>"
    LONGSHOT_EMULATED_MODULE="$<TARGET_FILE:longshot_emulated_module>")
endif()

add_test(NAME cuda_old_toolkit COMMAND ${CMAKE_COMMAND} -DGENERATOR=${CMAKE_GENERATOR} -DSOURCE=${CMAKE_SOURCE_DIR}
         -DWORK=${CMAKE_CURRENT_BINARY_DIR}/old_toolkit -P ${CMAKE_CURRENT_SOURCE_DIR}/cuda/old_toolkit.cmake)
