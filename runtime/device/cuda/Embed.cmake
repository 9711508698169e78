# msamp_embed_kernels(SOURCES FILE.cu...): compiles each file for all architectures; SOURCES become the sources of a module that
# then has the bytes msampFatbinFILE.
set(MSAMP_EMBED_FOLDER ${CMAKE_CURRENT_LIST_DIR} CACHE INTERNAL "")
function(msamp_embed_kernels sources)
  set(MSAMP_CUDA_ARCHS -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90
    -gencode arch=compute_100,code=[sm_100,compute_100])
  set(all "")
  foreach(file ${ARGN})
    get_filename_component(MSAMP_KERNEL_FILE ${file} NAME_WE)
    get_filename_component(file ${file} ABSOLUTE)
    set(MSAMP_FATBIN ${CMAKE_CURRENT_BINARY_DIR}/${MSAMP_KERNEL_FILE}.fatbin)
    add_custom_command(OUTPUT ${MSAMP_FATBIN}
      COMMAND ${MSAMP_NVCC} -fatbin -std=c++20 -O3 --expt-relaxed-constexpr -I ${CMAKE_SOURCE_DIR} ${MSAMP_CUDA_ARCHS}
        -MD -MF ${MSAMP_FATBIN}.d -o ${MSAMP_FATBIN} ${file}
      DEPENDS ${file} DEPFILE ${MSAMP_FATBIN}.d VERBATIM)
    set(embed ${CMAKE_CURRENT_BINARY_DIR}/${MSAMP_KERNEL_FILE}.embed.cpp)
    configure_file(${MSAMP_EMBED_FOLDER}/Embed.cpp.in ${embed} @ONLY)
    set_source_files_properties(${embed} PROPERTIES OBJECT_DEPENDS ${MSAMP_FATBIN})
    list(APPEND all ${embed})
  endforeach()
  set(${sources} ${all} PARENT_SCOPE)
endfunction()
