# Compiles the variants that src/backends/vulkan/*/shaders.inc list and embeds them: symbols smelt_shader_NAME and
# smelt_shader_end_NAME.
find_program(SMELT_GLSLC glslc REQUIRED)
find_program(SMELT_SPIRV_OPT spirv-opt REQUIRED)
find_path(SMELT_VOLK_INCLUDE volk.h REQUIRED)

set(SMELT_VULKAN ${PROJECT_SOURCE_DIR}/src/backends/vulkan)
file(GLOB SMELT_SHADER_LISTS CONFIGURE_DEPENDS ${SMELT_VULKAN}/*/shaders.inc)
list(REMOVE_ITEM SMELT_SHADER_LISTS ${SMELT_VULKAN}/core/shaders.inc)
set(SMELT_SHADER_DIR ${CMAKE_BINARY_DIR}/shaders)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${SMELT_SHADER_LISTS})
file(MAKE_DIRECTORY ${SMELT_SHADER_DIR})

# What -O does but for its redundancy elimination and what follows from it: values that are made once live longer, and
# drivers whose compilers don't undo that run out of registers in unrolled loops.
set(values --eliminate-local-single-block --eliminate-local-single-store --eliminate-dead-code-aggressive)
set(arrays --scalar-replacement=100 --convert-local-access-chains ${values} --ssa-rewrite --eliminate-dead-code-aggressive)
set(passes
  --wrap-opkill --eliminate-dead-branches --merge-return --inline-entry-points-exhaustive --eliminate-dead-functions
  --private-to-local ${values} ${arrays} --ccp --eliminate-dead-code-aggressive --loop-unroll --eliminate-dead-branches
  ${arrays} --vector-dce --eliminate-dead-inserts --eliminate-dead-branches --simplify-instructions
  --eliminate-dead-code-aggressive --merge-blocks)

set(assembly ".section .rodata\n")
set(SMELT_SPIRV)
foreach(list IN LISTS SMELT_SHADER_LISTS)
  get_filename_component(folder ${list} DIRECTORY)
  file(STRINGS ${list} lines REGEX "^SMELT_(TEXTURE_)?SHADER\\(")
  foreach(line IN LISTS lines)
    if(NOT line MATCHES "^SMELT_[A-Z_]*SHADER\\(([a-z0-9_]+), ([a-z0-9_]+), [0-9a-z]+, \"([^\"]*)\"\\)$")
      message(FATAL_ERROR "${list}: cannot read ${line}")
    endif()
    set(name ${CMAKE_MATCH_1})
    set(source ${folder}/${CMAKE_MATCH_2}.comp)
    separate_arguments(defines UNIX_COMMAND "${CMAKE_MATCH_3}")
    list(TRANSFORM defines PREPEND -D)
    set(out ${SMELT_SHADER_DIR}/${name}.spv)
    add_custom_command(OUTPUT ${out}
      COMMAND ${SMELT_GLSLC} --target-env=vulkan1.1 -I ${SMELT_VULKAN}/glsl ${defines} -MD -MF ${out}.d -MT ${out} -o ${out}.raw ${source}
      COMMAND ${SMELT_SPIRV_OPT} ${passes} ${out}.raw -o ${out}
      DEPENDS ${source} DEPFILE ${out}.d VERBATIM COMMENT "Shader ${name}")
    list(APPEND SMELT_SPIRV ${out})
    string(APPEND assembly ".balign 4\n.global smelt_shader_${name}\n.hidden smelt_shader_${name}\nsmelt_shader_${name}:\n.incbin \"${out}\"\n"
      ".global smelt_shader_end_${name}\n.hidden smelt_shader_end_${name}\nsmelt_shader_end_${name}:\n")
  endforeach()
endforeach()
string(APPEND assembly ".section .note.GNU-stack,\"\",%progbits\n")
file(CONFIGURE OUTPUT ${SMELT_SHADER_DIR}/shaders.s CONTENT "${assembly}" @ONLY)
set_source_files_properties(${SMELT_SHADER_DIR}/shaders.s PROPERTIES OBJECT_DEPENDS "${SMELT_SPIRV}")
