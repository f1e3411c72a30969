# ninja package (or cpack in the build folder): a Debian package. What it depends on is read from the
# programs and modules themselves; what only some users have is suggested.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME hires-flow)
set(CPACK_PACKAGE_CONTACT "the hires-flow developers <hires-flow@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libopenslide0 | libopenslide1") # loaded at run time: not among the shared libraries
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "openmpi-bin, libjs-leaflet")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "slurm-client")
include(CPack)
