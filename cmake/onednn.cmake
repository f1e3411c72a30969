# oneDNN as an imported target. Debian's own package file asks for OpenCL headers, which the CPU
# primitives do not need, so the library is looked up directly. Its version 3 has another C
# interface (scales and zero points of a primitive are no attributes any more) and is refused.
find_path(ONEDNN_INCLUDE_DIR oneapi/dnnl/dnnl.h REQUIRED)
find_library(ONEDNN_LIBRARY dnnl REQUIRED)
file(STRINGS ${ONEDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h lines REGEX "define DNNL_VERSION_(MAJOR|MINOR) ")
string(REGEX REPLACE "[^0-9;]+" "" numbers "${lines}")
list(JOIN numbers "." ONEDNN_VERSION)
if(ONEDNN_VERSION VERSION_LESS 2.6 OR ONEDNN_VERSION VERSION_GREATER_EQUAL 3)
    message(FATAL_ERROR "oneDNN ${ONEDNN_VERSION} (${ONEDNN_LIBRARY}) does not fit: 2.6 or 2.7 is needed, "
        "as Debian 12's libdnnl-dev is; set ONEDNN_INCLUDE_DIR and ONEDNN_LIBRARY to use another one")
endif()
add_library(oneDNN::oneDNN UNKNOWN IMPORTED)
set_target_properties(oneDNN::oneDNN PROPERTIES
    IMPORTED_LOCATION ${ONEDNN_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${ONEDNN_INCLUDE_DIR})
