# cmake --install: the command, the library that it preloads, the manual page and what one should read.
#
#   bin/stalloc
#   lib/libstalloc.so
#   lib/stalloc/libunwind.so.8    by which call sites are taken quickly; without it libgcc does it, slower
#   lib/stalloc/simulated/        the simulated CUDA device, for stalloc run --simulated and stalloc fit alone: no program
#                                 looks for libraries there by itself
#   lib/stalloc/python/simulated/ what of it is written in Python
#   share/man/man1/stalloc.1
#   share/doc/stalloc/            README, docs/, CHANGELOG, LICENSE, the copyright of libunwind and of D3
#
# The tree may be moved: the command finds its library, and the library its unwinder, from where they lie themselves.
install(TARGETS stalloc RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS stalloc_shim LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${PROJECT_SOURCE_DIR}/tools/stalloc.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)

# Without the links by which a program would be linked to it.
get_target_property(stalloc_simulated stalloc_simulated_device MANUALLY_ADDED_DEPENDENCIES)
set_property(TARGET ${stalloc_simulated} PROPERTY INSTALL_RPATH "$ORIGIN")  # they find each other
install(TARGETS ${stalloc_simulated} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/stalloc/simulated NAMELINK_SKIP)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/tools/python/simulated
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/stalloc/python PATTERN __pycache__ EXCLUDE)

find_library(STALLOC_LIBUNWIND NAMES libunwind.so.8)
if(STALLOC_LIBUNWIND)
  file(REAL_PATH ${STALLOC_LIBUNWIND} libunwind)
  install(PROGRAMS ${libunwind} DESTINATION ${CMAKE_INSTALL_LIBDIR}/stalloc RENAME libunwind.so.8)
  install(FILES /usr/share/doc/libunwind8/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR}
          RENAME libunwind-copyright OPTIONAL)
endif()
if(STALLOC_D3)
  install(FILES ${stalloc_d3_license} DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME d3-copyright OPTIONAL)
endif()
