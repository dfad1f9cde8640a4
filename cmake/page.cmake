# SPDX-License-Identifier: MIT
# Puts the page of "acre view" together and writes it as a C array:
#   cmake -DFOLDER=view -DOUT=page_template.c -P page.cmake
# page.html holds @STYLE@ and @SCRIPT@, which are replaced here, and @TITLE@ and
# @DATA@, which src/view/page.c replaces.
set(scripts decode model colour lanes chart map events timeline table app)
file(READ ${FOLDER}/page.html page)
file(READ ${FOLDER}/page.css style)
set(script "")
foreach(name ${scripts})
  file(READ ${FOLDER}/${name}.js text)
  string(APPEND script "${text}")
endforeach()
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
file(WRITE ${OUT}.html "${page}")
file(READ ${OUT}.html hex HEX)
string(REGEX REPLACE "(..)" "0x\\1," array "${hex}")
file(WRITE ${OUT} "#include \"view/page.h\"\nconst char page_template[] = {${array}0};\n")
