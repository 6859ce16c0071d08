# Compiles the variants that src/backends/vulkan/*/*.comp declare (codegen/shaders.py) and embeds them.
find_path(SMELT_VOLK_INCLUDE volk.h REQUIRED)
find_package(LibLZMA REQUIRED)
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

# The shader compiler runs on the machine that builds. Debian's libshaderc leaves glslang's libraries to its user.
set(SMELT_SHADER_COMPILER ${CMAKE_BINARY_DIR}/compile_shaders)
set(source ${SMELT_VULKAN}/codegen/compile_shaders.cc)
set(packing ${SMELT_VULKAN}/codegen/pack_shaders.h ${SMELT_VULKAN}/device/spirv_streams.h
  ${SMELT_VULKAN}/device/unpack_shaders.h)
set(libraries -lshaderc_combined -Wl,--start-group -lglslang -lMachineIndependent -lGenericCodeGen -lOSDependent
  -lOGLCompiler -lHLSL -lSPIRV -Wl,--end-group -lSPIRV-Tools-opt -lSPIRV-Tools -llzma -lpthread)
if(CMAKE_CROSSCOMPILING OR SMELT_SANITIZE)  # glslang leaks a little
  find_program(SMELT_HOST_CXX NAMES c++ g++ clang++ REQUIRED)
  add_custom_command(OUTPUT ${SMELT_SHADER_COMPILER} DEPENDS ${source} ${packing} VERBATIM COMMENT "Shader compiler"
    COMMAND ${SMELT_HOST_CXX} -std=c++20 -O1 -I ${PROJECT_SOURCE_DIR}/src ${source} -o ${SMELT_SHADER_COMPILER} ${libraries})
else()
  add_executable(smelt_compile_shaders ${source})
  target_link_libraries(smelt_compile_shaders PRIVATE smelt_flags ${libraries})
  target_include_directories(smelt_compile_shaders PRIVATE ${PROJECT_SOURCE_DIR}/src)
  set_target_properties(smelt_compile_shaders PROPERTIES
    OUTPUT_NAME compile_shaders RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR} COMPILE_OPTIONS -O1)
endif()

set(packed)
file(STRINGS ${SMELT_SHADER_DIR}/shaders.txt sources)
list(TRANSFORM sources REPLACE "^[^|]*\\|([^|]*)\\|.*$" "\\1")
list(REMOVE_DUPLICATES sources)
foreach(source IN LISTS sources)
  get_filename_component(name ${source} NAME_WE)
  set(out ${SMELT_SHADER_DIR}/${name}.shaders)
  add_custom_command(OUTPUT ${out} VERBATIM COMMENT "Shaders of ${name}"
    COMMAND ${SMELT_SHADER_COMPILER} ${SMELT_SHADER_DIR}/shaders.txt ${source} ${out} ${out}.d
      ${SMELT_VULKAN}/glsl ${SMELT_SHADER_DIR}/glsl
    DEPENDS ${source} ${SMELT_SHADER_COMPILER} ${SMELT_SHADER_DIR}/shaders.txt DEPFILE ${out}.d)
  list(APPEND packed ${out})
endforeach()
set_source_files_properties(${SMELT_SHADER_DIR}/shaders.s PROPERTIES OBJECT_DEPENDS "${packed}")
