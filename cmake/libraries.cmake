# The libraries that pkg-config knows, each with the oldest version that has what is used of it.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

# Sets the target PkgConfig::PREFIX, or ends with a sentence.
function(hrf_require prefix module minimum package)
    pkg_check_modules(${prefix} QUIET IMPORTED_TARGET GLOBAL ${module})
    if(NOT ${prefix}_FOUND)
        message(FATAL_ERROR "${module} is missing: install Debian's ${package} (tools/install-deps "
            "installs all that is needed)")
    elseif(${prefix}_VERSION VERSION_LESS ${minimum})
        message(FATAL_ERROR "${module} ${${prefix}_VERSION} is too old: ${minimum} or newer is needed "
            "(Debian 12's ${package} is new enough)")
    endif()
endfunction()

hrf_require(JANSSON jansson 2.11 libjansson-dev)
hrf_require(LIBCRYPTO libcrypto 3.0 libssl-dev)
hrf_require(ZLIB zlib 1.2.11 zlib1g-dev)
hrf_require(YAML yaml-0.1 0.2.2 libyaml-dev)
hrf_require(SQLITE sqlite3 3.35 libsqlite3-dev)          # RETURNING, trusted_schema
hrf_require(OPENSLIDE openslide 3.4.1 libopenslide-dev)
hrf_require(TIFF libtiff-4 4.0.10 libtiff-dev)
hrf_require(JPEG libjpeg 2.0 libjpeg62-turbo-dev)       # libjpeg-turbo
hrf_require(OPENJPEG libopenjp2 2.5 libopenjp2-7-dev)    # strict mode
hrf_require(PNG libpng 1.6 libpng-dev)
hrf_require(MICROHTTPD libmicrohttpd 0.9.71 libmicrohttpd-dev)
hrf_require(HDF5 hdf5 1.10 libhdf5-dev)
hrf_require(PROTOBUF_C libprotobuf-c 1.3 libprotobuf-c-dev)
if(BUILD_TESTING)
    hrf_require(CMOCKA cmocka 1.1.5 libcmocka-dev)
endif()
