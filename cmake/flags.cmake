# One interface target carries every compiler flag; each library links it PRIVATE.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

option(HRF_WERROR "Treat warnings as errors" ON)
set(HRF_SANITIZE "" CACHE STRING "Sanitizers, e.g. address,undefined or thread")

add_library(hrf_flags INTERFACE)
target_compile_options(hrf_flags INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wcast-qual
    "$<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes;-Wmissing-prototypes>"
    -Wvla -Wundef -Wwrite-strings
    # clang's -Wconversion also speaks of every enum that becomes an int, and of each loop that the
    # sanitizers keep from being vectorised.
    "$<$<C_COMPILER_ID:Clang>:-Wno-sign-conversion;-Wno-pass-failed>"
    $<$<BOOL:${HRF_WERROR}>:-Werror>)
# Some 180 programs are linked in a build of the tests, by gold in a quarter of the processor time. Not libraries:
# it exports names of its own from them. (Of clang's AddressSanitizer it warns that it cannot export symbols which
# nothing needs; the fuzzers are few.)
include(CheckLinkerFlag)
check_linker_flag(C -fuse-ld=gold HRF_HAS_GOLD)
if(HRF_HAS_GOLD AND CMAKE_BUILD_TYPE STREQUAL Debug AND CMAKE_C_COMPILER_ID STREQUAL GNU)
    string(APPEND CMAKE_EXE_LINKER_FLAGS " -fuse-ld=gold")
endif()
if(HRF_SANITIZE)
    # For every target: an uninstrumented library would hide what it does.
    add_compile_options(-fsanitize=${HRF_SANITIZE} -fno-omit-frame-pointer
        -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${HRF_SANITIZE})
    if(HRF_SANITIZE MATCHES address AND HRF_SANITIZE MATCHES undefined)
        # What a pointer that is none leads to, AddressSanitizer says; a sixth of the time to compile.
        add_compile_options(-fno-sanitize=null,object-size,pointer-overflow)
    endif()
endif()
# For a room with loops over pixels or numbers, and all below it. The preset asan does not optimise (most files
# compile in half of the time); these rooms would then take more time to run than that saves. The fuzzers' preset
# has a level of its own.
macro(hrf_optimise_under_sanitizers)
    if(HRF_SANITIZE AND NOT HRF_FUZZ)
        add_compile_options($<$<CONFIG:Debug>:-O1>)
    endif()
endmacro()

option(HRF_FUZZ "Build the fuzz entries as libFuzzer programs (needs clang)" OFF)
if(HRF_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID STREQUAL Clang)
        message(FATAL_ERROR "HRF_FUZZ=ON needs clang (CMAKE_C_COMPILER=clang, or the preset fuzz); "
            "the compiler is ${CMAKE_C_COMPILER_ID}")
    endif()
    # Libraries report which branches were taken; only the fuzz programs link libFuzzer's main.
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()
