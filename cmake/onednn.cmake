# oneDNN as an imported target. Debian's own package file asks for OpenCL headers, which the CPU
# primitives do not need, so the library is looked up directly.
find_path(ONEDNN_INCLUDE_DIR oneapi/dnnl/dnnl.h REQUIRED)
find_library(ONEDNN_LIBRARY dnnl REQUIRED)
add_library(oneDNN::oneDNN UNKNOWN IMPORTED)
set_target_properties(oneDNN::oneDNN PROPERTIES
    IMPORTED_LOCATION ${ONEDNN_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${ONEDNN_INCLUDE_DIR})
