find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
file(GLOB SMELT_CLI_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cli/*.cc)
list(FILTER SMELT_CLI_SOURCES EXCLUDE REGEX "_test\\.cc$")

set(SMELT_PAGE ${PROJECT_SOURCE_DIR}/src/cli/page/inspect.html)
set(SMELT_PAGE_SOURCE ${CMAKE_BINARY_DIR}/generated/inspect_page.cc)
add_custom_command(
  OUTPUT ${SMELT_PAGE_SOURCE}
  COMMAND ${CMAKE_COMMAND} -DINPUT=${SMELT_PAGE} -DOUTPUT=${SMELT_PAGE_SOURCE} -DNAME=kInspectPage -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  DEPENDS ${SMELT_PAGE} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake)

add_executable(smelt_command ${SMELT_CLI_SOURCES} ${SMELT_PAGE_SOURCE})
set_target_properties(smelt_command PROPERTIES OUTPUT_NAME smelt)
target_link_libraries(smelt_command PRIVATE smelt_engine CLI11::CLI11 nlohmann_json::nlohmann_json)
smelt_unity(smelt_command 10)
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/cli/main.cc PROPERTIES COMPILE_DEFINITIONS "SMELT_VERSION=\"${PROJECT_VERSION}\"")
