find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)
find_path(SMELT_MINIZIP_INCLUDE minizip/zip.h REQUIRED)
find_library(SMELT_MINIZIP minizip REQUIRED)
file(GLOB SMELT_CLI_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cli/*.cc)
list(FILTER SMELT_CLI_SOURCES EXCLUDE REGEX "_test\\.cc$|/main\\.cc$")

# The scripts are one scope: functions first, then what runs them.
set(SMELT_PAGE ${PROJECT_SOURCE_DIR}/src/cli/page)
set(SMELT_PAGE_FILES inspect.html style.css graph.js layout.js draw.js profile.js search.js panel.js main.js)
list(TRANSFORM SMELT_PAGE_FILES PREPEND ${SMELT_PAGE}/ OUTPUT_VARIABLE SMELT_PAGE_PATHS)
set(SMELT_EMBED ${PROJECT_SOURCE_DIR}/cmake/embed.py)
set(SMELT_PAGE_SOURCE ${CMAKE_BINARY_DIR}/generated/inspect_page.cc)
add_custom_command(OUTPUT ${SMELT_PAGE_SOURCE} DEPENDS ${SMELT_PAGE_PATHS} ${SMELT_EMBED} VERBATIM
  COMMAND ${Python3_EXECUTABLE} ${SMELT_EMBED} ${SMELT_PAGE_SOURCE} inspect_page_text ${SMELT_PAGE_PATHS})
set(SMELT_DIFF_PAGE ${PROJECT_SOURCE_DIR}/src/cli/diff_page.html)
set(SMELT_DIFF_PAGE_SOURCE ${CMAKE_BINARY_DIR}/generated/diff_page.cc)
add_custom_command(OUTPUT ${SMELT_DIFF_PAGE_SOURCE} DEPENDS ${SMELT_DIFF_PAGE} ${SMELT_EMBED} VERBATIM
  COMMAND ${Python3_EXECUTABLE} ${SMELT_EMBED} ${SMELT_DIFF_PAGE_SOURCE} diff_page_text ${SMELT_DIFF_PAGE})

# The comparison of models is the command's, not the libraries'.
file(GLOB SMELT_COMPARE_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/compare/*.cc)
list(FILTER SMELT_COMPARE_SOURCES EXCLUDE REGEX "_test\\.cc$")

# The command line as objects: the command and the Python module are linked from them.
add_library(smelt_cli OBJECT ${SMELT_CLI_SOURCES} ${SMELT_COMPARE_SOURCES} ${SMELT_PAGE_SOURCE}
  ${SMELT_DIFF_PAGE_SOURCE})
target_include_directories(smelt_cli PUBLIC ${PROJECT_SOURCE_DIR}/src)
target_include_directories(smelt_cli SYSTEM PUBLIC ${SMELT_SHADER_DIR}/include)
target_link_libraries(smelt_cli PUBLIC smelt_settings CLI11::CLI11 nlohmann_json::nlohmann_json ${SMELT_MINIZIP} ZLIB::ZLIB)
add_dependencies(smelt_cli smelt_schemas)
target_compile_options(smelt_cli PRIVATE ${SMELT_FOR_SIZE} ${SMELT_FEW_ROUNDS})
# What includes CLI11 or nlohmann's JSON, seconds a unit, is apart.
smelt_unity(smelt_cli 8 APART "include <(CLI/CLI|nlohmann/json)\\.hpp>")
smelt_precompile(smelt_cli <cli/output.h> <smelt/model.h>)

add_executable(smelt_command ${PROJECT_SOURCE_DIR}/src/cli/main.cc)
set_target_properties(smelt_command PROPERTIES OUTPUT_NAME smelt)
target_link_libraries(smelt_command PRIVATE smelt_cli smelt_engine)

# Completion scripts and the manual page, written by the command itself.
set(SMELT_SHARE ${CMAKE_BINARY_DIR}/share)
file(MAKE_DIRECTORY ${SMELT_SHARE}/smelt/tracers)
file(GLOB SMELT_TRACERS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/compare/tracers/*.py)
foreach(tracer ${SMELT_TRACERS})
  get_filename_component(name ${tracer} NAME)
  configure_file(${tracer} ${SMELT_SHARE}/smelt/tracers/${name} COPYONLY)
endforeach()
add_custom_command(TARGET smelt_command POST_BUILD
  COMMAND smelt_command completion bash > ${SMELT_SHARE}/smelt.bash
  COMMAND smelt_command completion zsh > ${SMELT_SHARE}/_smelt
  COMMAND smelt_command completion fish > ${SMELT_SHARE}/smelt.fish
  COMMAND smelt_command man > ${SMELT_SHARE}/smelt.1)
