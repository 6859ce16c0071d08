# libonnxifi.so: the C ABI over the runtime. Only the ABI's symbols leave it.
file(GLOB SMELT_ONNXIFI_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/onnxifi/*.cc)
list(FILTER SMELT_ONNXIFI_SOURCES EXCLUDE REGEX "_test\\.cc$")
add_library(onnxifi SHARED ${SMELT_ONNXIFI_SOURCES})
target_link_libraries(onnxifi PRIVATE $<BUILD_INTERFACE:smelt_engine>
  -Wl,--version-script=${PROJECT_SOURCE_DIR}/src/onnxifi/exports.map
  # Handles live as long as the process: dlclose leaves the library in place.
  -Wl,-z,nodelete)
target_include_directories(onnxifi PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_definitions(onnxifi PRIVATE SMELT_VERSION="${PROJECT_VERSION}")
smelt_unity(onnxifi 10)
add_dependencies(onnxifi smelt_schemas)
set_target_properties(onnxifi PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/src/onnxifi/exports.map)
# Historic wrappers look for libonnxifi-NAME.so.
add_custom_command(TARGET onnxifi POST_BUILD
  COMMAND ${CMAKE_COMMAND} -E create_symlink libonnxifi.so $<TARGET_FILE_DIR:onnxifi>/libonnxifi-smelt.so)

if(SMELT_BUILD_TESTS)
  file(GLOB SMELT_ABI_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/abi/*.cc)
  add_executable(smelt_abi_tests ${SMELT_ABI_SOURCES})
  target_include_directories(smelt_abi_tests PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(smelt_abi_tests PRIVATE smelt_flags Threads::Threads ${CMAKE_DL_LIBS})
  add_dependencies(smelt_abi_tests onnxifi)
  add_executable(smelt_abi_c99 ${PROJECT_SOURCE_DIR}/tests/abi/c99_client.c)
  set_target_properties(smelt_abi_c99 PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF)
  target_compile_options(smelt_abi_c99 PRIVATE -Wall -Wextra -Werror -pedantic)
  target_link_libraries(smelt_abi_c99 PRIVATE onnxifi)
  enable_testing()
  add_test(NAME abi COMMAND smelt_abi_tests $<TARGET_FILE:onnxifi>)
  add_test(NAME abi_c99 COMMAND smelt_abi_c99)
  set_tests_properties(abi PROPERTIES TIMEOUT 900)
endif()
