# SPDX-License-Identifier: MIT
# What "make install" puts where: the libraries, the headers, the command, its
# manual page, and descriptions for pkg-config and find_package(acre).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

file(RELATIVE_PATH from_bin_to_lib
  ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})

set_target_properties(acre_shared PROPERTIES EXPORT_NAME acre)
set_target_properties(acre_tools_shared PROPERTIES EXPORT_NAME tools)
# libacre looks for libacre_tools beside it when a snapshot is to be written out of memory.
set_target_properties(acre_shared acre_tools_shared PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS acre_shared acre_tools_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET acre)
  set_target_properties(acre PROPERTIES INSTALL_RPATH "$ORIGIN/${from_bin_to_lib}")
  install(TARGETS acre RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET openreg)
  set_target_properties(openreg PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS openreg LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
set_target_properties(acre_torch acre_predict PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS acre_torch acre_predict LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(ACRE_WIRES)
  install(FILES ${ACRE_WIRES} DESTINATION ${CMAKE_INSTALL_LIBDIR} OPTIONAL)
endif()
if(TARGET acre_archive)
  install(FILES ${PROJECT_BINARY_DIR}/libacre.a ${PROJECT_BINARY_DIR}/libacre_tools.a
    DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h"
  PATTERN "*.hpp")
# As Debian has it: on the path of its python3 when the prefix is /usr.
install(DIRECTORY python/acre DESTINATION lib/python3/dist-packages FILES_MATCHING PATTERN "*.py"
  PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE)
install(FILES LICENSE README.md CHANGELOG.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md"
  PATTERN "*.svg" PATTERN "*.png" PATTERN "*.schema.json")
install(DIRECTORY examples/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
# The rules for backends, whose files name each other by their place in this tree.
file(GLOB conform CONFIGURE_DEPENDS tests/conform/backend_suite*.[ch])
list(FILTER conform EXCLUDE REGEX "_inside\\.c$")
foreach(source ${conform} tests/conform/installed/conform.c
    tests/support/gate.c tests/support/gate.h tests/support/t.c tests/support/t.h)
  get_filename_component(name ${source} NAME)
  file(READ ${source} text)
  string(REGEX REPLACE "#include \"tests/[a-z]+/" "#include \"" text "${text}")
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/conform/${name} CONTENT "${text}" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  install(FILES ${PROJECT_BINARY_DIR}/conform/${name}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/acre/conform)
endforeach()
install(FILES tests/conform/installed/CMakeLists.txt
  DESTINATION ${CMAKE_INSTALL_DATADIR}/acre/conform)
install(FILES tools/completion/acre.bash RENAME acre
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES tools/completion/_acre DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES man/acre.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

# The static archive needs its libraries named; the shared one carries them.
set(private_libs "-lpthread -lm -ldl")
set(tools_private_libs "")
if(ZLIB_FOUND)
  set(tools_private_libs "-lz")
  set(ACRE_STATIC_ZLIB ON)
else()
  set(ACRE_STATIC_ZLIB OFF)
endif()
if(ACRE_LIBURING AND ACRE_URING AND ACRE_URING_HEADER)
  string(PREPEND private_libs "-luring ")
  set(ACRE_STATIC_URING uring)
endif()
file(RELATIVE_PATH pc_up ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" pc_up "${pc_up}")
configure_file(cmake/acre.pc.in ${PROJECT_BINARY_DIR}/acre.pc @ONLY)
configure_file(cmake/acre_tools.pc.in ${PROJECT_BINARY_DIR}/acre_tools.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/acre.pc ${PROJECT_BINARY_DIR}/acre_tools.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/acre)
configure_package_config_file(cmake/acreConfig.cmake.in ${PROJECT_BINARY_DIR}/acreConfig.cmake
  INSTALL_DESTINATION ${package_folder}
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_DATADIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/acreConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/acreConfig.cmake ${PROJECT_BINARY_DIR}/acreConfigVersion.cmake
  DESTINATION ${package_folder})
