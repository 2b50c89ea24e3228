# cmake -D FROM=file -D TO=source.cc -D HEADER=header.h -D NAME=scope::name -P EmbedText.cmake: writes a source that
# defines the std::string_view of the header as the content of the file.
file(READ ${FROM} content)
file(WRITE ${TO} "#include \"${HEADER}\"\n\nconst std::string_view ${NAME} = R\"EMBEDDED(")
file(APPEND ${TO} "${content}")
file(APPEND ${TO} ")EMBEDDED\";\n")
