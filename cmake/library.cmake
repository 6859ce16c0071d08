find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_path(SMELT_PTHREADPOOL_INCLUDE pthreadpool.h REQUIRED)
find_library(SMELT_PTHREADPOOL pthreadpool REQUIRED)
include(cmake/unity.cmake)

add_library(smelt_settings INTERFACE)
target_link_libraries(smelt_settings INTERFACE smelt_flags fmt::fmt-header-only Threads::Threads)
target_include_directories(smelt_settings INTERFACE ${PROJECT_SOURCE_DIR}/include)
target_include_directories(smelt_settings SYSTEM INTERFACE ${SMELT_SCHEMA_DIR} ${SMELT_PTHREADPOOL_INCLUDE} ${SMELT_VOLK_INCLUDE})

# smelt_layer(NAME BELOW...): the sources below src/NAME as an object library that finds the headers of src/NAME and
# src/BELOW only, so that an include that points up does not compile. A folder or a file may stand for a layer in BELOW.
set(SMELT_LAYERS)
function(smelt_layer name)
  string(REPLACE "/" "_" target smelt_${name})
  set(root ${CMAKE_BINARY_DIR}/layers/${target})
  file(REMOVE_RECURSE ${root})
  foreach(part ${name} ${ARGN})
    get_filename_component(folder ${root}/${part} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src/${part} ${root}/${part} SYMBOLIC)
  endforeach()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cc)
  list(FILTER sources EXCLUDE REGEX "_(test|bench)\\.cc$|/codegen/")
  add_library(${target} OBJECT ${sources})
  add_dependencies(${target} smelt_schemas)
  target_include_directories(${target} PRIVATE ${root})
  # Header-only use of flatbuffers: its locale helper lives in the compiled library.
  target_compile_definitions(${target} PRIVATE SMELT_BUILDING_LIBRARY FLATBUFFERS_LOCALE_INDEPENDENT=0)
  target_link_libraries(${target} PUBLIC smelt_settings)
  smelt_unity(${target} 8)
  set(SMELT_LAYERS ${SMELT_LAYERS} ${target} PARENT_SCOPE)
endfunction()

smelt_layer(base)
smelt_layer(tensor base)
smelt_layer(graph base tensor)
smelt_layer(ops base tensor graph)
set(below base tensor graph ops)
smelt_layer(formats ${below})
smelt_layer(passes ${below})
smelt_layer(backends/cpu ${below} backends/backend.h)
smelt_layer(backends/vulkan ${below} backends/backend.h)
target_sources(smelt_backends_vulkan PRIVATE ${SMELT_SHADER_DIR}/shaders.s)
target_include_directories(smelt_backends_vulkan SYSTEM PRIVATE ${SMELT_SHADER_DIR}/include)
# The runtime knows back-ends by their interface; backends.inc lists them.
smelt_layer(runtime ${below} formats passes backends/backend.h backends/backends.inc)
target_sources(smelt_runtime PRIVATE ${PROJECT_SOURCE_DIR}/src/backends/registry.cc)

smelt_layer(c_api base tensor graph runtime)
# Models written in other formats.
smelt_layer(convert ${below} formats passes backends/backend.h runtime)

# What runs once a model, not once an element, is compiled for size: half of the code, and sooner compiled.
foreach(layer formats passes backends_vulkan c_api)
  target_compile_options(smelt_${layer} PRIVATE $<$<CONFIG:Release>:-Os>)
endforeach()

smelt_precompile(smelt_ops <ops/core/op.h> <tensor/numeric.h>)
smelt_precompile(smelt_formats <ops/core/op.h> <tensor/numeric.h>)
smelt_precompile(smelt_passes <ops/core/op.h> <passes/passes.h> <tensor/numeric.h>)
smelt_precompile(smelt_runtime <ops/core/op.h> <tensor/numeric.h>)
smelt_precompile(smelt_backends_cpu <backends/cpu/core/kernel.h> <tensor/numeric.h>)
smelt_precompile(smelt_backends_vulkan <backends/vulkan/record/kernel_recorder.h> <tensor/numeric.h>)

include(cmake/images.cmake)

# The engine as objects, with the headers of every layer: the libraries, the command and the tests are linked from it.
add_library(smelt_engine INTERFACE)
target_include_directories(smelt_engine INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_include_directories(smelt_engine SYSTEM INTERFACE ${SMELT_SHADER_DIR}/include)
target_link_libraries(smelt_engine INTERFACE smelt_settings ${SMELT_PTHREADPOOL} ${ZLIB_LIBRARIES} ${CMAKE_DL_LIBS})
foreach(layer ${SMELT_LAYERS})
  target_sources(smelt_engine INTERFACE $<TARGET_OBJECTS:${layer}>)
endforeach()
add_custom_target(smelt_objects DEPENDS ${SMELT_LAYERS})

# libsmelt.so exports what the public headers mark, and nothing else.
add_library(smelt_shared SHARED)
add_library(smelt_static STATIC)
foreach(lib smelt_shared smelt_static)
  target_link_libraries(${lib} PRIVATE $<BUILD_INTERFACE:smelt_engine> ${SMELT_PTHREADPOOL} ${ZLIB_LIBRARIES} Threads::Threads ${CMAKE_DL_LIBS})
  target_include_directories(${lib} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${lib} PUBLIC cxx_std_20)
  set_target_properties(${lib} PROPERTIES OUTPUT_NAME smelt LINKER_LANGUAGE CXX)
endforeach()
# Symbols of the C interface bear the version that they came with.
set(SMELT_EXPORTS ${PROJECT_SOURCE_DIR}/src/c_api/exports.map)
target_link_options(smelt_shared PRIVATE -Wl,--version-script=${SMELT_EXPORTS})
set_target_properties(smelt_shared PROPERTIES LINK_DEPENDS ${SMELT_EXPORTS})
set_target_properties(smelt_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)
