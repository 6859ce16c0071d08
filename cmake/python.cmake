# The Python module smelt._engine: the engine and the command line in one shared object without exported symbols but its
# init function. Needs nanobind from PyPI in the interpreter Python_EXECUTABLE; `./dev python` sees to it.
option(SMELT_BUILD_PYTHON "Build the Python module" OFF)
if(NOT SMELT_BUILD_PYTHON)
  return()
endif()

find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
  OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE nanobind_ROOT COMMAND_ERROR_IS_FATAL ANY)
find_package(nanobind CONFIG REQUIRED)

file(GLOB SMELT_PYTHON_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/src/*.cc)
nanobind_add_module(smelt_python STABLE_ABI NB_STATIC NOMINSIZE ${SMELT_PYTHON_SOURCES})
get_target_property(libraries smelt_python LINK_LIBRARIES)
list(FILTER libraries INCLUDE REGEX "^nanobind")
set_target_properties(${libraries} PROPERTIES SYSTEM ON)  # its headers follow other warnings
target_link_libraries(smelt_python PRIVATE smelt_cli smelt_engine)
target_compile_definitions(smelt_python PRIVATE SMELT_VERSION="${PROJECT_VERSION}")
set_target_properties(smelt_python PROPERTIES OUTPUT_NAME _engine
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python/smelt)
install(TARGETS smelt_python LIBRARY DESTINATION smelt COMPONENT python)
