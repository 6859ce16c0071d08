# cmake -DINPUT=page.html -DOUTPUT=page.cc -DNAME=kPage -P embed.cmake: a file as a string constant.
file(READ ${INPUT} text)
# Raw string literals have a length limit in some compilers: cut into pieces.
string(LENGTH "${text}" length)
set(body "")
set(at 0)
while(at LESS length)
  string(SUBSTRING "${text}" ${at} 8000 piece)
  string(APPEND body "R\"page(${piece})page\"\n")
  math(EXPR at "${at} + 8000")
endwhile()
file(WRITE ${OUTPUT} "namespace smelt::cli {\nextern const char* const ${NAME};\nconst char* const ${NAME} =\n${body};\n}  // namespace smelt::cli\n")
