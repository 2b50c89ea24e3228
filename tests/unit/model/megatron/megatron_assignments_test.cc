// Assignments that bash makes while it expands something: read right, or refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "model/megatron/shell/shell.h"

namespace plumbline::model::megatron {
namespace {

using testing::HasSubstr;

// Returns the word that bash would give the training, or why the script is not read.
std::string word_after(const std::string& lines) {
  const auto read = read_script("#!/bin/bash\n" + lines + "\nrun \"${TP:-4}\"\n", {.path = "s.sh"});
  if (!read) return to_string(read.error());
  return read->commands.back().back().text;
}

TEST(MegatronAssignments, HideInBracketsAndAreRefused) {
  for (const char* lines :
       {"X=1; Y=$(( (1+(2)) + (X=8) ))", "X=1; for i in $FILES; do echo $(( (1+(2)) + (X=8) )); done",
        "B=(0 1); : ${A[B[1]]:=8}; TP=${A[1]}", "X=abcdefghijkl; : ${X:TP=8:1}", "X=TP; : ${!X:=8}", "[[ -v A[TP=8] ]]",
        "cat $UNKNOWN ${X[B[1]]:=3}"})
    EXPECT_THAT(word_after(lines), HasSubstr("is not read")) << lines;
}

// Bash evaluates the value of a name in arithmetic, and what it names in turn.
TEST(MegatronAssignments, HideInValuesOfArithmetic) {
  for (const char* lines :
       {"F='TP=8'; : $((F))", "F=G; G='TP=8'; : $((F + 1))", "A=(1 'TP=8'); : $((A[1]))",
        "F='TP=8'; A=(1 2); : ${A[F]}", "F='TP=8'; A[F]=1", "F='TP++'; TP=7; : $((F))", "F='TP=8'; : $[F]",
        "F='TP=8'; X=abcdefghijkl; : ${X:0:F}", "F='TP=8'; [[ F -eq 8 ]]", "F='TP=8'; if (( F > 1 )); then :; fi",
        "F='TP=8'; : $((2 ** 3 + F))", "F='TP=8'; for i in $FILES; do echo $((F)); done"})
    EXPECT_THAT(word_after(lines), HasSubstr("is not read")) << lines;
  EXPECT_EQ(word_after("X='2 + 2'; TP=$((X * 2))"), "8");  // (2 + 2) * 2
  EXPECT_EQ(word_after("X=Y; Y=8; TP=$((X))"), "8");
  EXPECT_EQ(word_after("X=; TP=$((X + 8))"), "8") << "an empty value is 0";
  EXPECT_EQ(word_after("X='8 '; TP=$((X))"), "8");
  EXPECT_EQ(word_after("A=(1 8); B=(1); TP=$((A[B[0]]))"), "8");
  EXPECT_EQ(word_after("X=X; TP=$((X))"), "${TP:-4}") << "a value that names itself is an error of bash";
  EXPECT_EQ(word_after("X=08; TP=$((X))"), "${TP:-4}");
}

// Here-documents of what runs in the shell itself are expanded there.
TEST(MegatronAssignments, HideInHereDocuments) {
  for (const char* lines :
       {"f() { cat; }; f <<EOF\n$((TP=8))\nEOF", "{ :; } <<EOF\n${TP:=8}\nEOF", "exec 3<<EOF\n${TP:=8}\nEOF",
        ": <<-EOF\n\t$((1 + (2) + (TP=8)))\n\tEOF", "F='TP=8'; : <<EOF\n$((F))\nEOF",
        "cat <<A <<B\nplain\nA\n${TP:=2}\nB", "for i in $FILES; do cat <<EOF\n${TP:=8}\nEOF\ndone"})
    EXPECT_THAT(word_after(lines), HasSubstr("is not read")) << lines;
  for (const char* lines : {"cat <<'EOF'\n${TP:=8}\nEOF", "cat <<\"EOF\"\n$((TP=8))\nEOF", "cat <<EOF\n\\${TP:=8}\nEOF",
                            "cat <<EOF\n${TP:-8} and $((2 + 6)) of a=b\nEOF"})
    EXPECT_EQ(word_after(lines), "4") << lines << ": nothing is expanded there, or sets anything";
}

}  // namespace
}  // namespace plumbline::model::megatron
