# hrf_add_unit_test(NAME LIBS ... [LABELS ...] SOURCES ...): a cmocka program that runs from the
# repository root, finds the real data in HRF_SHARED_DATA and may skip with exit code 77. Without LABELS it is
# `unit sanitized`: in the whole suite it runs under the sanitizers alone. What checks more without them, or
# computes with kernels, which the compiler optimises there less, names its labels and leaves `sanitized` out.
set(HRF_SHARED_DATA ${PROJECT_SOURCE_DIR}/../shared/data CACHE PATH "Real slides and patches")

set(HRF_TEST_ENVIRONMENT
    HRF_SHARED_DATA=${HRF_SHARED_DATA}
    HRF_SOURCE_DIR=${PROJECT_SOURCE_DIR}
    HRF_BIN_DIR=${PROJECT_BINARY_DIR}/bin
    # Tests run side by side: threads that spin while they wait take the cores from the others
    # (test_precision: 70 s of processor time, 31 s without).
    OMP_WAIT_POLICY=passive)

function(hrf_add_test_command name)
    if(NOT BUILD_TESTING)
        return()
    endif()
    cmake_parse_arguments(T "" "" "COMMAND;LABELS" ${ARGN})
    add_test(NAME ${name} COMMAND ${T_COMMAND} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 LABELS "${T_LABELS}"
        ENVIRONMENT "${HRF_TEST_ENVIRONMENT}" TIMEOUT 1200)
    # Under AddressSanitizer each load of an AVX-512 kernel is a call: three quarters of what a flow takes there. The
    # kernels' own tests (ops, unit) run them with its checks; flows compute as a processor with AVX2 does.
    if(HRF_SANITIZE AND "cli" IN_LIST T_LABELS AND NOT "ops" IN_LIST T_LABELS)
        set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT ONEDNN_MAX_CPU_ISA=AVX2)
    endif()
    if("slow" IN_LIST T_LABELS) # they start first, so that no core is left with one at the end
        set_tests_properties(${name} PROPERTIES COST 100)
    endif()
    # The flows that no other stage runs are the longest of the sanitized ones: they start first there.
    if(HRF_SANITIZE AND "sanitized" IN_LIST T_LABELS AND NOT "unit" IN_LIST T_LABELS)
        set_tests_properties(${name} PROPERTIES COST 100)
    endif()
endfunction()

# A test program that the whole suite runs in another build than this one. `ninja` builds it, as everything; the
# targets `all` of the rooms (base/all, ..., tests/all), which the whole suite builds, do not.
function(hrf_run_elsewhere name)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    set_property(GLOBAL APPEND PROPERTY HRF_RUN_ELSEWHERE ${name})
endfunction()

function(hrf_add_unit_test name)
    if(NOT BUILD_TESTING)
        return()
    endif()
    cmake_parse_arguments(T "" "" "LIBS;LABELS;SOURCES" ${ARGN})
    add_executable(${name} ${T_SOURCES})
    set_target_properties(${name} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    target_link_libraries(${name} PRIVATE ${T_LIBS} PkgConfig::CMOCKA hrf_flags)
    if(CMAKE_C_FLAGS_DEBUG MATCHES "-O3") # a test gains nothing from what takes twice as long to compile
        target_compile_options(${name} PRIVATE $<$<CONFIG:Debug>:-O1>)
    endif()
    if(NOT T_LABELS)
        set(T_LABELS unit sanitized)
    endif()
    if(HRF_SANITIZE AND "slow" IN_LIST T_LABELS) # tools/test leaves them out there
        set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
    if(NOT HRF_SANITIZE AND "sanitized" IN_LIST T_LABELS)
        hrf_run_elsewhere(${name})
    endif()
    hrf_add_test_command(${name} COMMAND ${name} LABELS ${T_LABELS})
endfunction()

# hrf_add_fuzz(NAME LIBS ... SOURCES ... CORPUS directories): `LLVMFuzzerTestOneInput` as a regression
# program over its corpora (every build), and as a libFuzzer program that looks for new inputs, starting
# from them, for HRF_FUZZ_SECONDS (preset fuzz).
function(hrf_add_fuzz name)
    if(NOT BUILD_TESTING)
        return()
    endif()
    cmake_parse_arguments(T "" "" "LIBS;SOURCES;CORPUS" ${ARGN})
    list(TRANSFORM T_CORPUS PREPEND ${PROJECT_SOURCE_DIR}/)
    if(HRF_FUZZ)
        add_executable(${name} ${T_SOURCES})
        target_link_options(${name} PRIVATE -fsanitize=fuzzer)
        hrf_add_test_command(${name} LABELS fuzz
            COMMAND ${PROJECT_SOURCE_DIR}/tests/fuzz/search $<TARGET_FILE:${name}> ${T_CORPUS})
    else()
        add_executable(${name} ${T_SOURCES} ${PROJECT_SOURCE_DIR}/tests/fuzz/replay.c)
        hrf_add_test_command(${name} COMMAND ${name} ${T_CORPUS} LABELS fuzz)
    endif()
    set_target_properties(${name} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    if(HRF_SANITIZE) # only the fuzzers' own build runs them (target fuzzers)
        set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    else()
        hrf_run_elsewhere(${name})
    endif()
    target_link_libraries(${name} PRIVATE ${T_LIBS} hrf_flags)
    set_property(GLOBAL APPEND PROPERTY HRF_FUZZERS ${name})
endfunction()
