# hrf_embed(TARGET SYMBOL FILE...): builds files of another language (HTML, CSS, JS, SQL) into a target as they are. C
# code reads them from the table `const struct hrf_embedded SYMBOL[]` (base/embedded.h) by their names without folders.
# (No .incbin: a dependency file does not name what it reads, and `ld -b binary` makes the stack executable.)
function(hrf_embed target symbol)
    list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE files)
    set(made ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.c)
    add_custom_command(OUTPUT ${made}
        COMMAND ${CMAKE_COMMAND} -DSYMBOL=${symbol} "-DFILES=${files}" -DOUT=${made} -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
        VERBATIM DEPENDS ${PROJECT_SOURCE_DIR}/cmake/embed.cmake ${files})
    target_sources(${target} PRIVATE ${made})
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
    set(arrays "")
    set(rows "")
    foreach(file ${FILES})
        get_filename_component(name ${file} NAME)
        string(MAKE_C_IDENTIFIER ${name} array)
        file(READ ${file} hex HEX)
        string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
        string(APPEND arrays "static const unsigned char ${array}[] = { ${bytes}0 };\n")
        string(APPEND rows "    { \"${name}\", (const char *)${array}, sizeof ${array} - 1 },\n")
    endforeach()
    file(WRITE ${OUT} "/* ${SYMBOL}.c - made by cmake/embed.cmake. */\n#include \"base/embedded.h\"\n\n"
        "extern const struct hrf_embedded ${SYMBOL}[];\n${arrays}"
        "const struct hrf_embedded ${SYMBOL}[] = {\n${rows}    { NULL },\n};\n")
endif()
