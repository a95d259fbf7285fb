# Configures the project with a toolkit too old for C++20: AUTO goes on without the module and ON ends, both
# with the reason. Run by ctest:  cmake -DSOURCE=DIR -DWORK=DIR -DGENERATOR=NAME -P old_toolkit.cmake
file(REMOVE_RECURSE ${WORK})
file(WRITE ${WORK}/bin/nvcc "#!/bin/sh\necho 'Cuda compilation tools, release 11.8, V11.8.89'\n[ \"$1\" = --version ]\n")
file(CHMOD ${WORK}/bin/nvcc PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
set(ENV{CUDACXX} ${WORK}/bin/nvcc)
set(sentence "CUDA 11.8 at ${WORK}/bin/nvcc is too old: C\\+\\+20 needs 12.0 or later")
foreach(choice AUTO ON)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE} -B ${WORK}/${choice} -DLONGSHOT_CUDA=${choice}
            -DLONGSHOT_TESTS=OFF
    RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE errors)
  string(REGEX REPLACE "[ \n]+" " " text "${text} ${errors}")  # CMake wraps its messages
  if(choice STREQUAL "AUTO")
    set(good "CUDA module: not built \\(${sentence}\\)")
  else()
    set(good "LONGSHOT_CUDA=ON: ${sentence}")
  endif()
  if(NOT text MATCHES "${good}")
    message(FATAL_ERROR "LONGSHOT_CUDA=${choice}: no such sentence:\n${good}\nin\n${text}")
  endif()
  if((code EQUAL 0) STREQUAL (choice STREQUAL "ON"))
    message(FATAL_ERROR "LONGSHOT_CUDA=${choice} ended with ${code}")
  endif()
endforeach()
