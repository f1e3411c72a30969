# hrf_add_module(NAME LIBS ... SOURCES ...): a shared object loaded on demand (base/module.h).
# Its own copy of the libraries it links stays inside it.
function(hrf_add_module name)
    cmake_parse_arguments(arg "" "" "LIBS;SOURCES" ${ARGN})
    add_library(hrf_module_${name} MODULE ${arg_SOURCES})
    target_link_libraries(hrf_module_${name} PRIVATE hrf_flags ${arg_LIBS})
    target_link_options(hrf_module_${name} PRIVATE -Wl,--exclude-libs,ALL -Wl,-Bsymbolic)
    target_compile_definitions(hrf_module_${name} PRIVATE HRF_VERSION="${PROJECT_VERSION}")
    set_target_properties(hrf_module_${name} PROPERTIES PREFIX "" OUTPUT_NAME hrf_${name}
        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/hires-flow)
endfunction()
