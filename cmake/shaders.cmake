# Compiles the variants that src/backends/vulkan/*/*.comp declare (codegen/shaders.py) and embeds them.
find_program(SMELT_GLSLC glslc REQUIRED)
find_program(SMELT_SPIRV_OPT spirv-opt REQUIRED)
find_path(SMELT_VOLK_INCLUDE volk.h REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)

set(SMELT_VULKAN ${PROJECT_SOURCE_DIR}/src/backends/vulkan)
set(SMELT_SHADER_DIR ${CMAKE_BINARY_DIR}/shaders)
file(GLOB SMELT_SHADER_SOURCES CONFIGURE_DEPENDS
  ${SMELT_VULKAN}/*/*.comp ${SMELT_VULKAN}/glsl/*.glsl ${SMELT_VULKAN}/codegen/*.py
  ${SMELT_VULKAN}/elementwise/functions.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${SMELT_SHADER_SOURCES})
file(MAKE_DIRECTORY ${SMELT_SHADER_DIR}/include)
execute_process(COMMAND ${Python3_EXECUTABLE} ${SMELT_VULKAN}/codegen/shaders.py ${SMELT_VULKAN} ${SMELT_SHADER_DIR}
  COMMAND_ERROR_IS_FATAL ANY)

# What -O does but for its redundancy elimination and what follows from it: values that are made once live longer, and
# drivers whose compilers don't undo that run out of registers in unrolled loops.
set(values --eliminate-local-single-block --eliminate-local-single-store --eliminate-dead-code-aggressive)
set(arrays --scalar-replacement=100 --convert-local-access-chains ${values} --ssa-rewrite --eliminate-dead-code-aggressive)
set(passes
  --wrap-opkill --eliminate-dead-branches --merge-return --inline-entry-points-exhaustive --eliminate-dead-functions
  --private-to-local ${values} ${arrays} --ccp --eliminate-dead-code-aggressive --loop-unroll --eliminate-dead-branches
  ${arrays} --vector-dce --eliminate-dead-inserts --eliminate-dead-branches --simplify-instructions
  --eliminate-dead-code-aggressive --merge-blocks)

set(SMELT_SPIRV)
file(STRINGS ${SMELT_SHADER_DIR}/shaders.txt lines)
foreach(line IN LISTS lines)
  string(REGEX MATCH "^(.*)\\|(.*)\\|(.*)$" line "${line}")
  set(source ${CMAKE_MATCH_2})
  set(out ${SMELT_SHADER_DIR}/${CMAKE_MATCH_1}.spv)
  separate_arguments(defines UNIX_COMMAND "${CMAKE_MATCH_3}")
  list(TRANSFORM defines PREPEND -D)
  add_custom_command(OUTPUT ${out}
    COMMAND ${SMELT_GLSLC} --target-env=vulkan1.1 -I ${SMELT_VULKAN}/glsl -I ${SMELT_SHADER_DIR}/glsl ${defines} -MD -MF ${out}.d -MT ${out} -o ${out}.raw ${source}
    COMMAND ${SMELT_SPIRV_OPT} ${passes} ${out}.raw -o ${out}
    DEPENDS ${source} DEPFILE ${out}.d VERBATIM COMMENT "Shader ${CMAKE_MATCH_1}")
  list(APPEND SMELT_SPIRV ${out})
endforeach()
set_source_files_properties(${SMELT_SHADER_DIR}/shaders.s PROPERTIES OBJECT_DEPENDS "${SMELT_SPIRV}")
