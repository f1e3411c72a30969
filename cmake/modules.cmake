# hrf_add_module(NAME LIBS ... SOURCES ...): a shared object loaded on demand (base/module.h).
# Its own copy of the libraries it links stays inside it. It says of which build it is by the macro
# HRF_BUILD_<NAME> of module_builds.h, which its loader compares with its own.
set(HRF_MODULE_BUILDS ${PROJECT_BINARY_DIR}/generated/module_builds.h)
file(GLOB_RECURSE module_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/base/*.h
    ${PROJECT_SOURCE_DIR}/schema/*.[ch] ${PROJECT_SOURCE_DIR}/aggregate/forest/*.[ch]
    ${PROJECT_SOURCE_DIR}/engine/*.h ${PROJECT_SOURCE_DIR}/engine/backend/cuda/*
    ${PROJECT_SOURCE_DIR}/engine/comm/*.c)
add_custom_command(OUTPUT ${HRF_MODULE_BUILDS}.stamp BYPRODUCTS ${HRF_MODULE_BUILDS}
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUT=${HRF_MODULE_BUILDS}
        -DVERSION=${PROJECT_VERSION} -P ${PROJECT_SOURCE_DIR}/cmake/module_builds.cmake
    COMMAND ${CMAKE_COMMAND} -E touch ${HRF_MODULE_BUILDS}.stamp
    DEPENDS ${module_files} ${PROJECT_SOURCE_DIR}/cmake/module_builds.cmake
    COMMENT "Comparing the builds of modules")
add_custom_target(hrf_module_builds DEPENDS ${HRF_MODULE_BUILDS}.stamp)
# A target that is a module, or loads one, includes module_builds.h.
function(hrf_knows_module_builds target)
    target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/generated)
    add_dependencies(${target} hrf_module_builds)
endfunction()

function(hrf_add_module name)
    cmake_parse_arguments(arg "" "" "LIBS;SOURCES" ${ARGN})
    add_library(hrf_module_${name} MODULE ${arg_SOURCES})
    target_link_libraries(hrf_module_${name} PRIVATE hrf_flags ${arg_LIBS})
    hrf_knows_module_builds(hrf_module_${name})
    target_link_options(hrf_module_${name} PRIVATE -Wl,--exclude-libs,ALL -Wl,-Bsymbolic)
    set_target_properties(hrf_module_${name} PROPERTIES PREFIX "" OUTPUT_NAME hrf_${name}
        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/hires-flow)
endfunction()
