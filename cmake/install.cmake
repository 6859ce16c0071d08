# cmake --install: the command, both libraries, public headers, find_package(smelt) and pkg-config.
include(CMakePackageConfigHelpers)

set(SMELT_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/smelt)

set_target_properties(smelt_shared PROPERTIES EXPORT_NAME smelt)
set_target_properties(smelt_static PROPERTIES EXPORT_NAME smelt_static)
add_library(smelt::smelt ALIAS smelt_shared)

# ./dev run builds the command alone: what an installation needs besides is built when it is missing.
install(CODE "
  foreach(file \"$<TARGET_FILE:smelt_command>\" \"$<TARGET_FILE:smelt_shared>\" \"$<TARGET_FILE:smelt_static>\" \"$<TARGET_FILE:onnxifi>\")
    if(NOT EXISTS \"\${file}\")
      execute_process(COMMAND \"${CMAKE_COMMAND}\" --build \"${CMAKE_BINARY_DIR}\"
        --target smelt_command smelt_shared smelt_static onnxifi COMMAND_ERROR_IS_FATAL ANY)
    endif()
  endforeach()")
install(TARGETS smelt_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
install(TARGETS smelt_shared smelt_static EXPORT smelt_targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libsmelt NAMELINK_COMPONENT dev
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
install(TARGETS onnxifi EXPORT smelt_targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT onnxifi)
install(FILES ${CMAKE_BINARY_DIR}/lib/libonnxifi-smelt.so DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT onnxifi)
install(FILES include/onnxifi.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
file(RELATIVE_PATH SMELT_PREFIX_FROM_PC /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/onnxifi.pc.in ${CMAKE_BINARY_DIR}/onnxifi.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/onnxifi.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
install(DIRECTORY include/smelt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
install(EXPORT smelt_targets NAMESPACE smelt:: DESTINATION ${SMELT_CMAKE_DIR} FILE smelt-targets.cmake COMPONENT dev)
configure_package_config_file(cmake/smelt-config.cmake.in ${CMAKE_BINARY_DIR}/smelt-config.cmake INSTALL_DESTINATION ${SMELT_CMAKE_DIR})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/smelt-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/smelt-config.cmake ${CMAKE_BINARY_DIR}/smelt-config-version.cmake DESTINATION ${SMELT_CMAKE_DIR} COMPONENT dev)
configure_file(cmake/smelt.pc.in ${CMAKE_BINARY_DIR}/smelt.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/smelt.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
install(DIRECTORY ${SMELT_SHARE}/smelt/tracers DESTINATION ${CMAKE_INSTALL_DATADIR}/smelt COMPONENT command)
install(FILES ${SMELT_SHARE}/smelt.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME smelt COMPONENT command)
install(FILES ${SMELT_SHARE}/_smelt DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT command)
install(FILES ${SMELT_SHARE}/smelt.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT command)
install(FILES ${SMELT_SHARE}/smelt.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT command)
include(cmake/packages.cmake)
