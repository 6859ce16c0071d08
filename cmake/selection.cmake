# SMELT_FOR: libsmelt with what some models need and nothing else, for size. cmake/selection.py lists the formats,
# operators and CPU kernels by the command of a whole build; src/base/selection.h reads the list. Functions that the
# list leaves out are not linked. The build has the libraries and examples/minimal, no Vulkan and no conversions.
set(SMELT_FOR "" CACHE STRING "Models, semicolons between: the libraries hold only what these need")
if(NOT SMELT_FOR)
  return()
endif()
find_package(Python3 REQUIRED COMPONENTS Interpreter)
find_program(SMELT_FOR_COMMAND smelt PATHS ${PROJECT_SOURCE_DIR}/build/release/bin DOC "The command of a whole build"
  REQUIRED)
set(models)
foreach(model IN LISTS SMELT_FOR)
  get_filename_component(model ${model} ABSOLUTE BASE_DIR ${PROJECT_SOURCE_DIR})
  list(APPEND models ${model})
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${models} ${PROJECT_SOURCE_DIR}/cmake/selection.py)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/generated/selection)
execute_process(COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/cmake/selection.py ${SMELT_FOR_COMMAND}
    ${CMAKE_BINARY_DIR}/generated/selection/smelt_selection.h ${models}
  OUTPUT_VARIABLE list OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
message(STATUS "SMELT_FOR: ${list}")
include_directories(${CMAKE_BINARY_DIR}/generated/selection)
add_compile_definitions(SMELT_SELECTION)
add_compile_options(-ffunction-sections -fdata-sections)
add_link_options(-Wl,--gc-sections)
if(SMELT_LLD AND NOT CMAKE_CROSSCOMPILING)
  add_link_options(-Wl,--icf=all -Wl,--ignore-data-address-equality)  # whatever the configuration
endif()
# Sources of what is left out; nothing that is linked names them.
set(SMELT_LEFT_OUT "/formats/.*/writer/|/formats/bundle/writer\\.cc$")
if(NOT list MATCHES "formats:.* (onnx|ort)")
  string(APPEND SMELT_LEFT_OUT "|/formats/(onnx|ort)/")
endif()
if(NOT list MATCHES "formats:.* (executorch|xnnpack|vulkan|bundle)")
  string(APPEND SMELT_LEFT_OUT "|/formats/(executorch|bundle)/")
endif()
set(SMELT_BUILD_TESTS OFF)
set(SMELT_BUILD_BENCH OFF)
