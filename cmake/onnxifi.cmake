# libonnxifi.so: the C ABI over the runtime. Only the ABI's symbols leave it.
file(GLOB SMELT_ONNXIFI_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/onnxifi/*.cc)
list(FILTER SMELT_ONNXIFI_SOURCES EXCLUDE REGEX "_test\\.cc$")
add_library(onnxifi SHARED ${SMELT_ONNXIFI_SOURCES} $<TARGET_OBJECTS:smelt_objects>)
target_link_libraries(onnxifi PRIVATE smelt_flags ${SMELT_PTHREADPOOL} Threads::Threads ${CMAKE_DL_LIBS}
  -Wl,--version-script=${PROJECT_SOURCE_DIR}/src/onnxifi/exports.map)
target_include_directories(onnxifi PRIVATE ${PROJECT_SOURCE_DIR}/src
  PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_definitions(onnxifi PRIVATE SMELT_VERSION="${PROJECT_VERSION}")
add_dependencies(onnxifi smelt_schemas)
set_target_properties(onnxifi PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/src/onnxifi/exports.map)
# Historic wrappers look for libonnxifi-NAME.so.
add_custom_command(TARGET onnxifi POST_BUILD
  COMMAND ${CMAKE_COMMAND} -E create_symlink libonnxifi.so $<TARGET_FILE_DIR:onnxifi>/libonnxifi-smelt.so)
