# CUDA, cuBLASLt, cuDNN: found, or the sentence why not. Sets HRF_HAS_CUDA and, with it, the target hrf_cuda
# (headers, cuBLASLt, cuDNN, the static run time) and the function hrf_compile_cuda(out source).
set(HRF_WITH_CUDA AUTO CACHE STRING "The CUDA back end: AUTO (where toolkit and cuDNN 9 are), ON, OFF")
set_property(CACHE HRF_WITH_CUDA PROPERTY STRINGS AUTO ON OFF)
set(HRF_HAS_CUDA OFF)

function(hrf_find_cuda)
    set(HRF_CUDA_MISSING "" PARENT_SCOPE)
    find_program(HRF_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
    if(NOT HRF_NVCC)
        set(HRF_CUDA_MISSING "no nvcc (CUDA toolkit) in PATH, CUDA_HOME or /usr/local/cuda" PARENT_SCOPE)
        return()
    endif()
    get_filename_component(nvcc ${HRF_NVCC} REALPATH)
    get_filename_component(root ${nvcc}/../.. ABSOLUTE)
    find_path(HRF_CUDA_INCLUDE cuda_runtime_api.h HINTS ${root}/include ${root}/targets/x86_64-linux/include)
    find_library(HRF_CUDART cudart_static HINTS ${root}/lib64 ${root}/lib ${root}/targets/x86_64-linux/lib)
    find_path(HRF_CUBLAS_INCLUDE cublasLt.h HINTS ${root}/include ${root}/targets/x86_64-linux/include)
    find_library(HRF_CUBLAS cublasLt HINTS ${root}/lib64 ${root}/lib ${root}/targets/x86_64-linux/lib)
    find_path(HRF_CUDNN_INCLUDE cudnn.h HINTS $ENV{CUDNN_PATH}/include ${root}/include)
    find_library(HRF_CUDNN cudnn HINTS $ENV{CUDNN_PATH}/lib ${root}/lib64 ${root}/lib)
    if(NOT HRF_CUDA_INCLUDE OR NOT HRF_CUDART)
        set(HRF_CUDA_MISSING "${root} has no headers or no libcudart_static.a" PARENT_SCOPE)
        return()
    endif()
    if(NOT HRF_CUBLAS_INCLUDE OR NOT HRF_CUBLAS)
        set(HRF_CUDA_MISSING "${root} has no cuBLASLt (cublasLt.h, libcublasLt.so)" PARENT_SCOPE)
        return()
    endif()
    if(NOT HRF_CUDNN_INCLUDE OR NOT HRF_CUDNN)
        set(HRF_CUDA_MISSING "no cuDNN (cudnn.h, libcudnn.so) beside ${root} or in CUDNN_PATH" PARENT_SCOPE)
        return()
    endif()
    # Device properties as JSON, which plans without a GPU stand on, came with cuDNN 9.8.
    file(GLOB headers ${HRF_CUDNN_INCLUDE}/cudnn_version*.h)
    set(version)
    foreach(header ${headers})
        file(STRINGS ${header} lines REGEX "#define CUDNN_(MAJOR|MINOR) ")
        foreach(line ${lines})
            string(REGEX REPLACE ".*(MAJOR|MINOR) +([0-9]+).*" "\\2" number ${line})
            list(APPEND version ${number})
        endforeach()
    endforeach()
    list(GET version 0 major)
    list(GET version 1 minor)
    if(NOT "${major}.${minor}" VERSION_GREATER_EQUAL 9.8)
        set(HRF_CUDA_MISSING "cuDNN ${major}.${minor} is too old (9.8 is needed)" PARENT_SCOPE)
    endif()
    set(HRF_CUDNN_VERSION ${major}.${minor} PARENT_SCOPE)
    set(HRF_CUDA_ROOT ${root} PARENT_SCOPE)
endfunction()

if(NOT HRF_WITH_CUDA STREQUAL OFF)
    hrf_find_cuda()
    if(HRF_CUDA_MISSING AND HRF_WITH_CUDA STREQUAL ON)
        message(FATAL_ERROR "HRF_WITH_CUDA=ON: ${HRF_CUDA_MISSING}")
    elseif(HRF_CUDA_MISSING)
        message(STATUS "CUDA back end: left out, ${HRF_CUDA_MISSING}")
    else()
        message(STATUS "CUDA back end: ${HRF_NVCC}, cuDNN ${HRF_CUDNN_VERSION}")
        set(HRF_HAS_CUDA ON)
    endif()
endif()

# sm_80 (A100), sm_90a (H100, H200), sm_100, sm_120, and a form that later ones compile by themselves.
# No product and sum is joined into one rounding unless the source says so.
set(HRF_CUDA_ARCHITECTURES 80 90a 100 120 CACHE STRING "GPU generations that kernels are built for")

if(HRF_HAS_CUDA)
    add_library(hrf_cuda INTERFACE)
    target_include_directories(hrf_cuda SYSTEM INTERFACE ${HRF_CUDA_INCLUDE} ${HRF_CUBLAS_INCLUDE} ${HRF_CUDNN_INCLUDE})
    target_link_libraries(hrf_cuda INTERFACE ${HRF_CUDNN} ${HRF_CUBLAS} ${HRF_CUDART} ${CMAKE_DL_LIBS} rt Threads::Threads)
    set(HRF_CUDA_FLAGS -std=c++17 -O3 -fmad=false -I${PROJECT_SOURCE_DIR}
        -Xcompiler=-fPIC,-Wall,-fno-exceptions,-fno-rtti)
    foreach(architecture ${HRF_CUDA_ARCHITECTURES})
        list(APPEND HRF_CUDA_FLAGS -gencode=arch=compute_${architecture},code=sm_${architecture})
    endforeach()
    list(GET HRF_CUDA_ARCHITECTURES -1 newest)
    list(APPEND HRF_CUDA_FLAGS -gencode=arch=compute_${newest},code=compute_${newest})
    function(hrf_compile_cuda out source)
        get_filename_component(name ${source} NAME_WE)
        set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.cu.o)
        # The object by its name in the working folder: nvcc writes it into the dependency file as it is, and
        # where its path has a space ninja would not find it there, and compile at every build. What ptxas says of
        # registers is kept for the test lint_registers.
        add_custom_command(OUTPUT ${object} BYPRODUCTS ${CMAKE_CURRENT_BINARY_DIR}/${name}.cu.said
            COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${HRF_NVCC} ${HRF_CUDA_FLAGS} -MD -MF ${name}.cu.o.d -Xptxas=-v
                -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${name}.cu.o 2> ${name}.cu.said ||
                sh -c "cat ${name}.cu.said && exit 1"
            DEPENDS ${source} DEPFILE ${object}.d VERBATIM
            COMMENT "Compiling ${source} for sm ${HRF_CUDA_ARCHITECTURES}")
        set(${out} ${object} PARENT_SCOPE)
    endfunction()
endif()
