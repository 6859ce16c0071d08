# The Python module smelt._engine: the engine and the command line in one shared object without exported symbols but its
# init function. Needs nanobind from PyPI in the interpreter Python_EXECUTABLE; `./dev python` sees to it.
option(SMELT_BUILD_PYTHON "Build the Python module" OFF)
if(NOT SMELT_BUILD_PYTHON)
  return()
endif()
if(Python_EXECUTABLE AND NOT EXISTS "${Python_EXECUTABLE}")  # a venv that was removed since
  message(WARNING "No Python module is built: ${Python_EXECUTABLE} is gone")
  return()
endif()

find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
# The stable ABI, which CPython has for nanobind from 3.12 on. CMake's own target for it came with 3.26.
if(Python_VERSION VERSION_GREATER_EQUAL 3.12 AND NOT TARGET Python::SABIModule)
  add_library(Python::SABIModule INTERFACE IMPORTED)
  target_include_directories(Python::SABIModule INTERFACE ${Python_INCLUDE_DIRS})
  set(Python_SOSABI abi3)
endif()
if(CMAKE_CROSSCOMPILING)  # the interpreter is of this machine and has another suffix
  set(Python_SOABI cpython-${Python_VERSION_MAJOR}${Python_VERSION_MINOR}-${CMAKE_LIBRARY_ARCHITECTURE})
endif()
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
set_target_properties(smelt_python PROPERTIES OUTPUT_NAME _engine EXCLUDE_FROM_ALL ON
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python/smelt)
install(TARGETS smelt_python LIBRARY DESTINATION smelt COMPONENT python EXCLUDE_FROM_ALL)
