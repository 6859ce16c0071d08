include(CheckCXXCompilerFlag)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(ZLIB REQUIRED)
if(NOT SMELT_FOR)
  find_package(LibLZMA REQUIRED)  # packs shaders
  set(SMELT_LZMA ${LIBLZMA_LIBRARIES})
  set(SMELT_LZMA_FLAG -llzma)
endif()
find_path(SMELT_XXHASH_INCLUDE xxhash.h REQUIRED)
include(cmake/unity.cmake)

add_library(smelt_settings INTERFACE)
target_link_libraries(smelt_settings INTERFACE smelt_flags fmt::fmt-header-only Threads::Threads)
target_include_directories(smelt_settings INTERFACE ${PROJECT_SOURCE_DIR}/include)
target_include_directories(smelt_settings SYSTEM INTERFACE ${SMELT_SCHEMA_DIR} ${SMELT_VOLK_INCLUDE})

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
  if(SMELT_LEFT_OUT)
    list(FILTER sources EXCLUDE REGEX "${SMELT_LEFT_OUT}")
  endif()
  add_library(${target} OBJECT ${sources})
  add_dependencies(${target} smelt_schemas)
  target_include_directories(${target} PRIVATE ${root})
  # Header-only use of flatbuffers: its locale helper lives in the compiled library.
  target_compile_definitions(${target} PRIVATE SMELT_BUILDING_LIBRARY FLATBUFFERS_LOCALE_INDEPENDENT=0)
  target_link_libraries(${target} PUBLIC smelt_settings)
  if(NOT name STREQUAL base)  # whose exceptions are caught and asked for their type elsewhere
    target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-fno-rtti>)
  endif()
  set(SMELT_LAYERS ${SMELT_LAYERS} ${target} PARENT_SCOPE)
endfunction()

# smelt_part(LAYER NAME PATHS [LINE]): the sources of a layer that match PATHS, or lie below folders that do, and with a line
# that matches LINE, become an object library of their own, with compile options and precompiled headers of its own.
function(smelt_part layer name paths)
  string(REPLACE "/" "_" whole smelt_${layer})
  set(target ${whole}_${name})
  get_target_property(sources ${whole} SOURCES)
  set(moved ${sources})
  list(FILTER moved INCLUDE REGEX "/src/${layer}/(${paths})(/|\\.cc$)")
  if(ARGC GREATER 3)
    foreach(source ${moved})
      file(STRINGS ${source} line REGEX "${ARGV3}" LIMIT_COUNT 1)
      if(NOT line)
        list(REMOVE_ITEM moved ${source})
      endif()
    endforeach()
  endif()
  list(REMOVE_ITEM sources ${moved})
  set_property(TARGET ${whole} PROPERTY SOURCES ${sources})
  add_library(${target} OBJECT ${moved})
  add_dependencies(${target} smelt_schemas)
  foreach(property INCLUDE_DIRECTORIES COMPILE_DEFINITIONS COMPILE_OPTIONS LINK_LIBRARIES)
    get_target_property(value ${whole} ${property})
    set_property(TARGET ${target} PROPERTY ${property} ${value})
  endforeach()
  set(SMELT_LAYERS ${SMELT_LAYERS} ${target} PARENT_SCOPE)
endfunction()

smelt_layer(base)
smelt_layer(tensor base)
smelt_layer(graph base tensor)
smelt_layer(ops base tensor graph)
# Families whose reference kernels rarely run, since the back-ends have kernels of their own: compiled for size.
smelt_part(ops reference "attention|container|control/(control|custom)|conv|detection/(grid_priors|landmarks|nms)|elementwise/(binary|binary_fixed|binary_math|binary_quantized|cast|dynamic_range|fixed_scale|quantize|unary_fixed|unary_math|unary_quantized|where|xnnpack_rules)|gather|matmul|ml/(decoding|features|maps)|normalization|pool|random|recurrent|reduce|resize|shape|signal|softmax|sort/unique|strings")
# Shape rules' driver, builder and checks, the operator table: what loading and planning call.
smelt_part(ops building "core/(builder|decomposition|infer|kernel_condition|table|verify)|common/(enums|infer|output_type)")
set(below base tensor graph ops)
smelt_layer(formats ${below})
smelt_layer(passes ${below})
smelt_layer(backends/cpu ${below} backends/backend.h)
smelt_part(backends/cpu vectors ".*" "hwy/foreach_target")
if(NOT SMELT_FOR)
  smelt_layer(backends/vulkan ${below} backends/backend.h)
  target_sources(smelt_backends_vulkan PRIVATE ${SMELT_SHADER_DIR}/shaders.s)
  target_include_directories(smelt_backends_vulkan SYSTEM PRIVATE ${SMELT_SHADER_DIR}/include)
endif()
# The runtime knows back-ends by their interface; backends.inc lists them.
smelt_layer(runtime ${below} formats passes backends/backend.h backends/backends.inc)
target_sources(smelt_runtime PRIVATE ${PROJECT_SOURCE_DIR}/src/backends/registry.cc)
# What loads a model and makes a plan, and what runs once a run.
smelt_part(runtime planning "append_step|arena_items|compiled|constant_propagation|decompose_node|executor|live_ranges|model|node_facts|owned_outputs|partition|plan_builder|plan_update|run_queue|session|variable_steps")

smelt_layer(c_api base tensor graph runtime)
if(NOT SMELT_FOR)  # models written in other formats
  smelt_layer(convert ${below} formats passes backends/backend.h runtime)
endif()

# Loops over elements that no vector type spells out: the compiler makes the vectors.
smelt_part(backends/cpu loops "core/(broadcast|float16)|elementwise/(binary_unquantized|cast|unary_unquantized|where)|quantize/dequantize_integer|reduce/(cumulative_sum_integer|reduce_unquantized)|resize/resize_nearest|sort/topk_f32")

# What runs once a model, not once an element, is compiled for size: half of the code, and sooner compiled.
check_cxx_compiler_flag(-Oz SMELT_HAS_OZ)  # GCC 12, Clang
set(SMELT_FOR_SIZE $<$<CONFIG:Release>:$<IF:$<BOOL:${SMELT_HAS_OZ}>,-Oz,-Os>>)
set(once smelt_ops_building smelt_formats smelt_passes smelt_runtime_planning smelt_c_api)
set(rarely smelt_ops_reference)
if(SMELT_FOR)  # where size counts, all but the fast kernels
  list(APPEND rarely smelt_base smelt_tensor smelt_graph smelt_ops smelt_runtime)
else()
  list(APPEND once smelt_backends_vulkan smelt_convert)
endif()
if(NOT SMELT_FOR)  # passes that take a tenth of a unit's time and save 3 % of its size
  list(APPEND SMELT_FOR_SIZE $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-fno-ipa-cp$<SEMICOLON>-fno-gcse$<SEMICOLON>-fno-schedule-insns2$<SEMICOLON>-fno-tree-vrp>)
endif()
foreach(layer ${once} ${rarely})
  target_compile_options(${layer} PRIVATE ${SMELT_FOR_SIZE})
endforeach()
# Loops of few rounds stay as they are written.
set(SMELT_FEW_ROUNDS $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-fno-move-loop-invariants$<SEMICOLON>-fno-tree-loop-im$<SEMICOLON>-fno-ivopts>)
foreach(layer ${once})
  target_compile_options(${layer} PRIVATE ${SMELT_FEW_ROUNDS})
endforeach()
# Loops of kernels begin at aligned addresses; targets of jumps, and of most functions, need not.
set(no_kernels smelt_base smelt_tensor smelt_graph smelt_ops smelt_runtime)
foreach(layer ${no_kernels} smelt_backends_cpu smelt_backends_cpu_loops)
  target_compile_options(${layer} PRIVATE $<$<CONFIG:Release>:-fno-align-functions$<SEMICOLON>-fno-align-jumps>)
endforeach()
foreach(layer ${no_kernels})
  target_compile_options(${layer} PRIVATE $<$<CONFIG:Release>:-fno-align-loops>)
endforeach()
target_compile_options(smelt_backends_cpu_vectors PRIVATE $<$<CONFIG:Release>:-fno-align-jumps>)
target_compile_options(smelt_backends_cpu_loops PRIVATE
  $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-ftree-vectorize$<SEMICOLON>-fvect-cost-model=dynamic>)
foreach(layer ${SMELT_LAYERS})  # the larger a unit, the less is inlined
  if(layer MATCHES "^smelt_(formats|ops_reference|passes)$")
    smelt_unity(${layer} 24 JOIN)
  else()
    smelt_unity(${layer} 8)
  endif()
endforeach()

smelt_precompile(smelt_ops <ops/core/op.h> <tensor/numeric.h>)
smelt_precompile(smelt_formats <ops/core/op.h> <tensor/numeric.h>)
smelt_precompiled_by(smelt_runtime smelt_ops)
smelt_precompiled_by(smelt_backends_cpu_loops smelt_backends_cpu)
foreach(layer smelt_ops_reference smelt_ops_building smelt_passes smelt_runtime_planning smelt_c_api)
  smelt_precompiled_by(${layer} smelt_formats)
endforeach()
smelt_precompile(smelt_backends_cpu <backends/cpu/core/kernel.h> <tensor/numeric.h>)
smelt_precompile(smelt_backends_cpu_vectors <backends/cpu/core/kernel.h> <tensor/numeric.h> <backends/cpu/core/highway_targets.h>)
if(SMELT_PRECOMPILE)  # false reports of GCC 12 on its own intrinsics behind a precompiled header
  target_compile_options(smelt_backends_cpu_vectors PRIVATE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized$<SEMICOLON>-Wno-uninitialized>)
endif()
if(NOT SMELT_FOR)
  smelt_precompiled_by(smelt_convert smelt_formats)
  smelt_precompile(smelt_backends_vulkan <backends/vulkan/record/kernel_recorder.h> <tensor/numeric.h>)
endif()

include(cmake/images.cmake)

# The engine as objects, with the headers of every layer: the libraries, the command and the tests are linked from it.
add_library(smelt_engine INTERFACE)
target_include_directories(smelt_engine INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_include_directories(smelt_engine SYSTEM INTERFACE ${SMELT_SHADER_DIR}/include)
target_link_libraries(smelt_engine INTERFACE smelt_settings ${ZLIB_LIBRARIES} ${SMELT_LZMA} ${CMAKE_DL_LIBS})
foreach(layer ${SMELT_LAYERS})
  target_sources(smelt_engine INTERFACE $<TARGET_OBJECTS:${layer}>)
endforeach()
add_custom_target(smelt_objects DEPENDS ${SMELT_LAYERS})

# libsmelt.so exports what the public headers mark, and nothing else.
add_library(smelt_shared SHARED)
add_library(smelt_static STATIC)
foreach(lib smelt_shared smelt_static)
  target_link_libraries(${lib} PRIVATE $<BUILD_INTERFACE:smelt_engine> ${ZLIB_LIBRARIES} ${SMELT_LZMA} Threads::Threads ${CMAKE_DL_LIBS})
  target_include_directories(${lib} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${lib} PUBLIC cxx_std_20)
  set_target_properties(${lib} PROPERTIES OUTPUT_NAME smelt LINKER_LANGUAGE CXX)
endforeach()
# Symbols of the C interface bear the version that they came with.
set(SMELT_EXPORTS ${PROJECT_SOURCE_DIR}/src/c_api/exports.map)
target_link_options(smelt_shared PRIVATE -Wl,--version-script=${SMELT_EXPORTS})
set_target_properties(smelt_shared PROPERTIES LINK_DEPENDS ${SMELT_EXPORTS})
set_target_properties(smelt_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)
