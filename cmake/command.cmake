find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
file(GLOB SMELT_CLI_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cli/*.cc)
list(FILTER SMELT_CLI_SOURCES EXCLUDE REGEX "_test\\.cc$|/main\\.cc$")

set(SMELT_PAGE ${PROJECT_SOURCE_DIR}/src/cli/page/inspect.html)
set(SMELT_PAGE_SOURCE ${CMAKE_BINARY_DIR}/generated/inspect_page.cc)
add_custom_command(
  OUTPUT ${SMELT_PAGE_SOURCE}
  COMMAND ${CMAKE_COMMAND} -DINPUT=${SMELT_PAGE} -DOUTPUT=${SMELT_PAGE_SOURCE} -DNAME=kInspectPage -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  DEPENDS ${SMELT_PAGE} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake)

# The command line as objects: the command and the Python module are linked from them.
add_library(smelt_cli OBJECT ${SMELT_CLI_SOURCES} ${SMELT_PAGE_SOURCE})
target_include_directories(smelt_cli PUBLIC ${PROJECT_SOURCE_DIR}/src)
target_include_directories(smelt_cli SYSTEM PUBLIC ${SMELT_SHADER_DIR}/include)
target_link_libraries(smelt_cli PUBLIC smelt_settings CLI11::CLI11 nlohmann_json::nlohmann_json)
add_dependencies(smelt_cli smelt_schemas)
smelt_unity(smelt_cli 10)
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/cli/command.cc PROPERTIES COMPILE_DEFINITIONS "SMELT_VERSION=\"${PROJECT_VERSION}\"")

add_executable(smelt_command ${PROJECT_SOURCE_DIR}/src/cli/main.cc)
set_target_properties(smelt_command PROPERTIES OUTPUT_NAME smelt)
target_link_libraries(smelt_command PRIVATE smelt_cli smelt_engine)
