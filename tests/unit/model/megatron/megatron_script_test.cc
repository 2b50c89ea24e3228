// Reads launch scripts as text: the words of their commands, and the line of each.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "model/megatron/detail/importer.h"
#include "model/megatron/model_shape.h"
#include "model/megatron/rules.h"
#include "model/megatron/shell/shell.h"
#include "tests/support/inputs.h"

namespace plumbline::model::megatron {
namespace {

using testing::ElementsAre;
using tests::value_of;

std::vector<std::string> words_of(const Command& command) {
  std::vector<std::string> words;
  for (const Word& word : command) words.push_back(word.text);
  return words;
}

Result<Script> reading(const std::string& script, const Definitions& definitions = {}) {
  return read_script(script, {.path = "s.sh", .definitions = definitions});
}

// Returns the words of the last command.
std::vector<std::string> last(const std::string& script, const Definitions& definitions = {}) {
  const auto read = reading(script, definitions);
  if (!read) return {to_string(read.error())};
  const auto& commands = read->commands;
  return commands.empty() ? std::vector<std::string>() : words_of(commands.back());
}

// Returns why a script with these lines from its second on is not read.
Error refusal(const std::string& lines) {
  const auto read = reading("#!/bin/bash\n" + lines + "\npython a.py \"${TP:-4}\"\n");
  EXPECT_FALSE(read) << lines;
  return read ? Error() : read.error();
}

TEST(MegatronScript, VariablesAndQuotes) {
  EXPECT_THAT(last("TP=8\nrun --tp $TP --pp=${TP} '$TP' \"a $TP\""),
              ElementsAre("run", "--tp", "8", "--pp=8", "$TP", "a 8"));
  EXPECT_THAT(last("A=\"-x 1 \\\n  -y 2\"\nrun $A \"$A\""), ElementsAre("run", "-x", "1", "-y", "2", "-x 1   -y 2"));
  EXPECT_THAT(last("run ${N:-4} ${M:=\"5\"} ${N:+no} ${TP-2}", {{"TP", "8"}}), ElementsAre("run", "4", "5", "8"));
  EXPECT_THAT(last("export A=1 B=2; C=3 run $A$B$C"), ElementsAre("run", "12$C"));
  EXPECT_THAT(last("TP=4\nrun $TP", {{"TP", "8"}}), ElementsAre("run", "8")) << "what comes from outside holds";
  EXPECT_THAT(last("A+=' --y'\nrun $A", {{"A", "--x"}}), ElementsAre("run", "--x", "--y"));
}

TEST(MegatronScript, Arrays) {
  EXPECT_THAT(last("A=(\n  --x 1 # why\n  --y '2 3'\n)\nrun \"${A[@]}\""),
              ElementsAre("run", "--x", "1", "--y", "2 3"));
  EXPECT_THAT(last("A=(--x)\nA+=(--y)\nrun ${A[@]} ${A[1]}"), ElementsAre("run", "--x", "--y", "--y"));
  EXPECT_THAT(last("A=\"-x\"\nA+=\" -y\"\nrun $A"), ElementsAre("run", "-x", "-y"));
  EXPECT_THAT(last("declare -a A=(1 2)\nrun ${A[@]}"), ElementsAre("run", "1", "2"));
  EXPECT_THAT(last("--x 1"), ElementsAre("--x", "1"));
  EXPECT_THAT(last("A=()\nrun \"${A[@]}\" \"$@\" end"), ElementsAre("run", "end"));
  EXPECT_THAT(last("run ${A[@]} ${#A[@]} $a $A end"), ElementsAre("run", "0", "$A", "end"))
      << "an environment has no lists, and by custom no small letters";
  EXPECT_THAT(last("source ~/.bashrc\nrun ${A[@]} $a"), ElementsAre("run", "${A[@]}", "$a"));
}

TEST(MegatronScript, ArithmeticAndWhatOnlyAShellEvaluates) {
  EXPECT_THAT(last("run $((2 + 3 * 4 - 7 / 2 % 2)) $((1 << 3)) $((2 ** 3)) $((7 & 3))"),
              ElementsAre("run", "13", "$((1 << 3))", "$((2 ** 3))", "$((7 & 3))"));
  EXPECT_THAT(last("A=8\nrun $((A * 4 / (1 + 1))) $(( $A + -1 ))"), ElementsAre("run", "16", "7"));
  EXPECT_THAT(last("B=$((A * 4))\nrun $B $(hostname -s) $RANK"),
              ElementsAre("run", "$((A * 4))", "$(hostname -s)", "$RANK"));
  const auto none = [](std::string_view) { return std::optional<std::string>(); };
  EXPECT_EQ(arithmetic("9223372036854775807 + 1", none), std::nullopt);
  EXPECT_EQ(arithmetic("1 / 0", none), std::nullopt);
  EXPECT_EQ(arithmetic("09", none), std::nullopt);
  EXPECT_EQ(arithmetic("8 + (4 > 3 && 1 != 2) * 2 - -1", none), 11);
  EXPECT_EQ(arithmetic("1 - - 1 < = 2", none), std::nullopt);
}

TEST(MegatronScript, CommandsWithinCommands) {
  EXPECT_THAT(last("C=\"python a.py --x 1\"\nsrun -N 4 sh -c \"cd /x && $C\""),
              ElementsAre("srun", "-N", "4", "sh", "-c", "python", "a.py", "--x", "1"));
  EXPECT_THAT(last("C='python a.py'\neval $C --y"), ElementsAre("python", "a.py", "--y"));
  EXPECT_THAT(last("if [ -z '' ]; then\n  run a > log 2>&1\nfi < in"), ElementsAre("run", "a"));
  EXPECT_THAT(last("run --n 2 2>&1 > log 2> err --y"), ElementsAre("run", "--n", "2", "--y"));
  EXPECT_THAT(last("cat <<EOF > f\nrun 'x\nEOF\nrun y"), ElementsAre("run", "y"));
}

// What stands for a word in bash: each value is what bash gives, or not known, or the script is refused.
TEST(MegatronScript, ValuesAreBashsOrNotKnown) {
  const auto value = [](const std::string& script) {
    const auto read = reading(script + "\npython a.py \"${TP:-4}\"\n");
    if (!read) return std::string("refused");
    if (read->commands.empty()) return std::string("none");
    const Word& word = read->commands.back().back();
    if (word.condition > 0) return std::string("undecided");
    return word.unknown ? "unknown" : word.text;
  };
  const std::vector<std::pair<std::string, std::string>> known = {
      {"A=(1 2 8); TP=${A[-1]}", "8"},
      {"A=(1 2); A=(8); TP=${A[1]:-8}", "8"},
      {"A=(--x 'a b'); TP=\"in ${A[@]} out\"", "in --x a b out"},
      {"i=1; A=(2 8); TP=${A[i]}", "8"},
      {"X=8.5; TP=${X%.*}", "8"},
      {"X=a/b/8; TP=${X##*/}", "8"},
      {"set -- \"x 8\"; set -- $1; TP=$2", "8"},
      {"TP=$(( (1 + 3) * 2 ))", "8"},
      {"i=0; while (( i < 8 )); do i=$((i + 1)); done; TP=$i", "8"},
      {"f() { local X=2; h; }; X=8; h() { TP=$X; }; f", "2"},
      {"f() { echo 8 >&2; echo 3; }; TP=$(f)", "3"},
      {"TP=8 | cat", "4"},
      {"TP=8 true", "4"},
      {"T\\\nP=8", "8"},
      {"[[ v8 == v[0-9] ]] && TP=8", "8"},
      {"unset TP; TP=${TP-8}", "8"},
      {"case 70b in [0-9]b) TP=1 ;; [0-9][0-9]b) TP=8 ;; esac", "8"},
      {"cat <<EOF > f\nTP=2\nEOF\nTP=8", "8"},
      {"[ -n \"$X\" ] && echo yes; mkdir -p $X || true; TP=8", "8"},
      {"X=' 8 '; [[ \"\" -eq 0 ]] && TP=$((X))", "8"},
      {"f() { [ -n '' ]; return; }; f || TP=8", "8"},
      {"f() { declare -g TP=8; }; f", "8"},
      {"readonly A=4; readonly TP=$((2 * A))", "8"},
      {"f() { local -r TP=2; readonly Y=8; }; f; TP=$Y", "8"},
      {"readonly -a A=(1 8); TP=${A[1]}", "8"},
      {"echo $(hostname) && export X=$(hostname) && TP=8", "8"},
      {"for ((i = 0; i < 8; i++)); do TP=$i; done", "7"},
      {"for ((i = 8, 1; i < 8; i++)); do TP=$i; done", "refused"},
      {"for (( TP = 2; TP < 8; TP += 3 )); do true; done", "8"},
      {"for ((i = 3; i > 0; --i)); do TP=$i; break; done", "3"},
      {"for ((i = 0; i < 0; i++)); do TP=2; done", "4"},
      // Lists of layers as slime writes them: two of four layers are dense.
      {"N=4; A=(); for ((i=0; i<N; i++)); do\n  if (( i < 2 )); then A+=(0); else A+=(1); fi\ndone\n"
       "printf -v TP \"[%s]\" \"$(IFS=', '; echo \"${A[*]}\")\"",
       "[0,0,1,1]"},
      {"A=(a b); X=$(IFS=+; echo \"${A[*]}\"); TP=\"${A[*]} $X\"", "a b a+b"},
      // Loops that change nothing, however often they run.
      {"TP=8; for x in $(awk '{print $1}' hosts); do\n  if [[ $x == $Y ]]; then continue; fi\n  ssh $x \"ray stop\" &\n"
       "done\nwait",
       "8"},
      {"TP=8; for TP in $X; do echo $TP; done", "unknown"},
      {"TP=8; until ray status; do sleep 1; done", "8"},
      {"TP=8; for x in $X; do echo $((TP * 2)) ${TP:-4}; break; done", "8"},
      {"f() { break; }; for x in 1; do f; TP=8; done", "8"},
      {"TP=8; X=$(run ${TP:=4})", "8"},
      {"A=3; TP=$[A * 2 + 2]", "8"},
  };
  for (const auto& [script, expected] : known) EXPECT_EQ(value(script), expected) << script;
  for (const std::string script : {"TP=$((010))",
                                   "TP=$((16#8))",
                                   "X=008; TP=$((X))",
                                   "A=(1); X=${A[$N]:-2}; TP=$X",
                                   "A=({1..8}); TP=${#A[@]}",
                                   "X=8B; TP=${X,,}",
                                   "X=Y; Y=8; TP=${!X}",
                                   "TP=$'8\\n'",
                                   "TP=$(echo 8 | tr -d x)",
                                   "TP=${@: -1}",
                                   "TP=~",
                                   "TP=$(printf %s 8)",
                                   "TP=$(cat <<EOF\n8\nEOF\n)",
                                   "TP=${X/a/8}",
                                   "false; TP=$(($? + 7))",
                                   "A=(1 2); A[1]=8; TP=${A[1]}",
                                   "TP=$((3 > 2 ? 8 : 2))",
                                   "X=$Y; TP=${X:-8}",
                                   "X=$Y; TP=${X:+8}",
                                   "TP=$([ -n \"$X\" ] && echo 8 || echo 2)"})
    EXPECT_EQ(value(script), "unknown") << script;
  for (const std::string script :
       {"TP=8; [ -n \"$X\" ] && TP=2", "[[ 08 -eq 8 ]] && TP=2 || TP=8", "[ -e f ] && TP=2", "[[ v8 =~ 8 ]] && TP=2",
        "TP=; [ -n \"$X\" ] && TP=8", "if [ -n \"$X\" ]; then TP=8; else TP=8; fi",
        "[ -n \"$X\" ] && Y=1; TP=$((Y * 8))", "Y=4; [ -n \"$X\" ] && Y=8; [ $Y = 8 ] && TP=$Y",
        "f() { TP=$1; }; case $X in a) f 2 ;; *) f 8 ;; esac", "TP=8; [ -n \"$X\" ] && unset TP",
        "if [ -n \"$X\" ]; then [ -n \"$Y\" ] && exit; TP=8; fi"})
    EXPECT_EQ(value(script), "undecided") << script;
}

// What is not read is refused by its name and line, and --execute reads it.
TEST(MegatronScript, ConstructsThatAreNotReadAreNamed) {
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"printf -v TP %d 8", "'printf'"},
      {"read TP <<< 8", "'read'"},
      {"let TP=8", "'let'"},
      {"mapfile -t A < f; TP=${A[1]}", "'mapfile'"},
      {"while getopts t: o -t 8; do TP=$OPTARG; done", "'getopts'"},
      {"shopt -s nocasematch; TP=8", "'shopt'"},
      {"alias f=TP=8", "'alias'"},
      {"trap 'TP=2' DEBUG", "'trap'"},
      {"select x in a; do TP=$x; done", "'select'"},
      {"coproc TP=8", "'coproc'"},
      {"(( TP = 8 ))", "arithmetic that sets a variable ('TP = 8')"},
      {"i=8; TP=$((i--))", "arithmetic that sets a variable ('i--')"},
      {"a=5; (( a += 3 ))", "arithmetic that sets a variable ('a += 3')"},
      {"a=5; (( a <<= 3 ))", "arithmetic that sets a variable ('a <<= 3')"},
      {"for x in $X; do TP=8; done", "a loop that runs any number of times"},
      {"for f in *.txt; do TP=8; done", "a loop that runs any number of times"},
      {"for ((i = 0; i < N; i++)); do TP=$i; done", "a loop that runs any number of times"},
      {"for ((i = 0; i < 8; i <<= 1)); do TP=$i; done", "arithmetic that sets a variable ('i <<= 1')"},
      {"for x in $X; do export TP=8; done", "a loop that runs any number of times"},
      {"TP=0; while TP=$((TP+1)); ! ping $X; do sleep 1; done", "a loop that runs any number of times"},
      {"for x in $X; do ./train.sh $x; done", "a loop that runs any number of times"},
      {"printf -v 'A[0]' %s 8", "'printf'"},
      {"f() { TP=8; }; while ! ping $X; do f; done", "a loop that runs any number of times"},
      {"for x in $X; do ssh $x \"torchrun b.py\"; done", "a loop that runs any number of times"},
      {"TP=$(IFS=,; A=8,4; echo $A)", "an IFS of the script's own"},
      {"while [ -n \"$X\" ]; do TP=8; done", "a loop that runs any number of times"},
      {"f() { [ -n \"$X\" ] && return; TP=8; }; f", "a 'return' that a condition decides"},
      {"for y in 1 2; do [ -n \"$X\" ] && break; TP=$y; done", "a 'break' that a condition decides"},
      {"[ -n \"$X\" ] && f() { TP=8; }", "a function behind a condition that is not decided"},
      {"set -- 1 2; [ -n \"$X\" ] && shift", "'shift' where it is not known"},
      {"[ -n \"$X\" ] && set -- 8", "'set -- 8' where it is not known"},
      {"A=; [ -n \"$X\" ] && A=' && export TP=8'; eval \"true $A\"", "a command that a condition decides"},
      {"A=; [ -n \"$X\" ] && A=TP=8; eval $A", "a command that a condition decides"},
      {"A=; [ -n \"$X\" ] && A=TP=8; export $A", "'export TP=8'"},
      {"case x in x) TP=2 ;& y) TP=8 ;; esac", "a 'case' that goes on with its next clause"},
      {"case x in x) TP=2 ;;& *) TP=8 ;; esac", "a 'case' that goes on with its next clause"},
      {"declare -i TP=1; TP+=7", "'declare -i'"},
      {"declare -A M=([7b]=8 [70b]=2); TP=${M[7b]}", "'declare -A'"},
      {"f() { local -n r=$1; r=8; }; f TP", "'local -n'"},
      {"A=([3]=8 9); TP=${#A[@]}", "a list with anything else than words"},
      {"readonly TP=8; TP=2", "a second value of the readonly 'TP'"},
      {"TP=8; readonly TP; unset TP", "a second value of the readonly 'TP'"},
      {"declare -r TP=8; f() { TP=4; }; f", "a second value of the readonly 'TP'"},
      {"IFS=,; A=8,4; set -- $A; TP=$1", "an IFS of the script's own"},
      {"set -- 1 2; shift $X", "'shift $X' where it is not known"},
      {"for y in 1; do for x in $X; do break 2; done; TP=8; done", "a loop that runs any number of times"},
      {"for y in 1; do for x in $X; do continue 2; done; TP=8; done", "a loop that runs any number of times"},
      {"for x in $X; do echo ${TP=8}; done", "a loop that runs any number of times"},
      {"for x in $X; do echo ${A[1]:=3}; done", "a loop that runs any number of times"},
      {"for x in $X; do echo ${!TP:=3}; done", "a loop that runs any number of times"},
      {"for x in $X; do echo $((TP = 8)); done", "a loop that runs any number of times"},
      {"TP=2; A[TP=8]=1", "arithmetic that sets a variable ('TP=8')"},
      {"echo > ${TP:=8}.log", "an assignment within a redirection"},
      {"X=$Y; Z=${X:-$((TP=8))}", "an assignment within an expansion"},
      {"Z=${X/${TP:=8}/a}", "an assignment within an expansion"},
      {"TP=2; X=ab; Z=${X:$((TP=1)):1}", "arithmetic that sets a variable ('TP=1')"},
      {"echo {a,${TP:=8}}", "an assignment within an expansion"},
      {"sbatch <<EOF\npython b.py\nEOF", "a here-document with commands for 'sbatch'"},
  };
  for (const auto& [script, what] : refused) {
    const Error error = refusal(script);
    EXPECT_EQ(error.message, what + " is not read") << script;
    EXPECT_EQ(error.line, 2) << script;
    EXPECT_THAT(error.hint, testing::HasSubstr("--execute")) << script;
  }
  EXPECT_THAT(last("run $(expr 2 \\* 3)"), ElementsAre("run", "6"));
  EXPECT_THAT(last("set -eu\nrun $a"), ElementsAre("run", "$a")) << "which ends the script";
  EXPECT_EQ(refusal("A=; [ -n \"$X\" ] && A=TP=8; eval $A").hint, "--define X=VALUE, or --execute runs the script");
  EXPECT_TRUE(reading("python a.py\nread X\nfor x in $X; do read Y; done\n"))
      << "behind the training it does not matter";
  EXPECT_TRUE(reading("f() { read X; for ((;;)); do case x in x) ;& esac; done; }\npython a.py\n"))
      << "a function that is not called";
}

// What a condition that is not decided adds is marked with it, and the only training is started.
TEST(MegatronScript, WhatAConditionDecidesIsMarked) {
  const auto script =
      value_of(reading("A=(--x 1)\nB=-b\nif [ -n \"$LOG\" ]; then A+=(--save s); B=\"$B -c\"; else A+=(--y 2); fi\n"
                       "case $SIZE in 7b) A+=(--z 3) ;; esac\npython a.py \"${A[@]}\" $B\n"));
  const Command& command = script.commands.back();
  EXPECT_THAT(words_of(command),
              ElementsAre("python", "a.py", "--x", "1", "--save", "s", "--y", "2", "--z", "3", "-b", "-c"));
  std::vector<int> marks;
  for (const Word& word : command) marks.push_back(word.condition);
  EXPECT_THAT(marks, ElementsAre(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 0, 1));
  EXPECT_EQ(std::ranges::count(command, true, &Word::unknown), 0);
  ASSERT_EQ(script.conditions.size(), 2u);
  EXPECT_EQ(undecided(script.conditions[0]), "'[ -n \"$LOG\" ]' with LOG is not decided");
  EXPECT_EQ(remedy(script.conditions[0]), "--define LOG=VALUE, or --execute runs the script");
  EXPECT_EQ(script.conditions[0].line, 3);
  EXPECT_EQ(script.conditions[1].text, "case $SIZE is 7b");
  // Two trainings of which a condition decides are refused.
  for (const std::string text :
       {"if [ $X = 1 ]; then python a.py; else python b.py; fi", "[ $X = 1 ] && python a.py\npython b.py",
        "if [ $X = 1 ]; then python a.py; exit; fi\npython b.py"}) {
    const auto two = reading(text);
    ASSERT_FALSE(two) << text;
    EXPECT_EQ(two.error().message, "'[ $X = 1 ]' with X is not decided, and which training is started");
    EXPECT_EQ(two.error().line, 1);
  }
  EXPECT_TRUE(reading("if [ $X = 1 ]; then python a.py; python b.py; fi"));
}

TEST(MegatronScript, WaysWithoutATrainingAreLeftOut) {
  const auto script =
      value_of(reading("if [ ! -f pretrain_gpt.py ]; then\n  echo missing; TP=2; exit 1\nfi\n"
                       "[[ -d $DATA && -e a ]] || exit 1\n[ -n \"$M\" ] && python a.py $TP\n"));
  EXPECT_EQ(script.commands.back().back().condition, 0) << "what is not run sets nothing";
  std::vector<std::string> notes;
  for (const Word& note : script.notes)
    notes.push_back(std::to_string(note.line) + " " + note.text.substr(0, note.text.find(", since")));
  EXPECT_THAT(notes, ElementsAre("1 '[ ! -f pretrain_gpt.py ]' is not decided: it is taken not to hold",
                                 "4 '[[ -d $DATA && -e a ]]' is not decided: it is taken to hold",
                                 "5 '[ -n \"$M\" ]' is not decided: it is taken to hold"));
  const auto nested = value_of(reading("if [ -n \"$A\" ]; then\n  [ -n \"$B\" ] && X=1\n  exit\nfi\npython a.py\n"));
  EXPECT_THAT(nested.notes, ElementsAre(testing::Field(&Word::line, 1)));
  const auto ends = value_of(reading("if [ -n \"$A\" ]; then exit 1; else exit 2; fi\npython a.py\n"));
  EXPECT_FALSE(ends.trains);
  EXPECT_EQ(ends.exit_line, 1);
}

// What is not read may set any variable, so that its default behind that is not known.
TEST(MegatronScript, BehindWhatIsNotReadNoDefaultHolds) {
  for (const std::string unread : {"source ~/.bashrc", "eval \"$(conda shell.bash hook)\"", ". \"$ENV\"",
                                   "[ -n \"$X\" ] && source env.sh", "f() { source ~/.bashrc; }; f"}) {
    const auto script = value_of(reading("PP=2\n" + unread +
                                         "\nTP=${TP:-8}\nA+=' --x 1'\n: ${CP:=4}\n"
                                         "python a.py --tp $TP --pp ${PP:-4} --cp $CP ${DP+--dp 1} $A"));
    EXPECT_THAT(words_of(script.commands.back()), ElementsAre("python", "a.py", "--tp", "${TP:-8}", "--pp", "2", "--cp",
                                                              "$CP", "${DP+--dp 1}", "$A", "--x", "1"))
        << unread;
    EXPECT_THAT(script.defaults, testing::IsEmpty());
    EXPECT_EQ(script.unread.line, 2);
    EXPECT_THAT(script.notes, testing::Contains(testing::Field(&Word::text, testing::HasSubstr("is not read"))));
  }
  EXPECT_THAT(last("source ~/.bashrc\nrun ${TP:-2}", {{"TP", "8"}}), ElementsAre("run", "8"));
  EXPECT_THAT(last("(source ~/.bashrc)\nrun ${TP:-2}"), ElementsAre("run", "2")) << "in a shell of its own";
  EXPECT_THAT(last("run ${TP:-2}\nsource ~/.bashrc"), ElementsAre("run", "2"));
}

TEST(MegatronScript, WordsHaveTheirLines) {
  const auto script = value_of(reading("A=\"--x 1\n  --y 2\"\n\nrun \\\n  $A --z\n"));
  std::vector<int> lines;
  for (const Word& word : script.commands.back()) lines.push_back(word.line);
  EXPECT_THAT(lines, ElementsAre(4, 1, 1, 2, 2, 5));
}

// bash refuses these scripts, or ends at these lines.
TEST(MegatronScript, DamagedScriptsAreErrorsWithTheirLine) {
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"if [ 1 -gt 2 ]; then\nfi", "'then' has no commands"},
      {"if true; then A=1\nelse\nfi", "'else' has no commands"},
      {"while true; do\ndone", "'do' has no commands"},
      {"f() {\n}", "'{' has no commands"},
      {"(\n)", "'(' has no commands"},
      {"true &&\n[[ -n $X ]] echo debug", "'echo' is no part of the command before it"},
      {"if true; then A=1\nfi python b.py", "'python' is no part of the command before it"},
      {"A=1\n; B=2", "';' is no part of a command"},
      {"function f( {\n A=1; }", "'(' of line 2 has no ')'"},
      {"for i in 1 2; do A=1\n", "'for' of line 2 has no 'done'"},
      {"case x in\nx) A=1 ;;", "'case' of line 2 has no ')'"},
      {"A=1\n]] echo", "']]' closes nothing"},
  };
  for (const auto& [script, what] : refused) {
    const Error error = refusal(script);
    EXPECT_EQ(error.message, what) << script;
    EXPECT_GE(error.line, 2) << script;
  }
  // bash reads a whole line before it runs it, and none behind the training.
  EXPECT_FALSE(reading("python a.py 2>&1 | tee lo${g.txt\n"));
  EXPECT_FALSE(reading("python a.py; fi\n"));
  EXPECT_FALSE(reading("if true; then\n  python a.py\n"));
  EXPECT_TRUE(reading("python a.py\nfi\n"));
  EXPECT_TRUE(reading("{ python a.py; } 2>&1 | tee log; f() { true; }\n"));
}

// A loop ends where its condition is decided, and behind the training.
TEST(MegatronScript, LoopsWithAnEnd) {
  EXPECT_THAT(last("N=0\nwhile true; do N=$((N+1)); if [ $N -eq 3 ]; then break; fi; done\nrun $N"),
              ElementsAre("run", "3"));
  const auto again = value_of(reading("while :; do\n  python a.py\n  [ $? -eq 0 ] && break\n  sleep 5\ndone\n"));
  EXPECT_LE(again.commands.size(), 2u);
}

TEST(MegatronScript, WhatIsNotClosedIsAnErrorWithItsLine) {
  for (const char* text : {"\nrun \"a\nb", "\nrun 'a", "\nA=(1 2\n", "\necho ${A", "\nrun $(a\n"}) {
    const auto script = reading(text);
    ASSERT_FALSE(script) << text;
    EXPECT_EQ(script.error().line, 2) << text;
  }
  std::string doubling = "A=xx\n";
  for (int i = 0; i < 40; ++i) doubling += "A=$A$A\n";
  EXPECT_FALSE(reading(doubling));
}

std::optional<std::int64_t> gpus(const std::string& launcher, const Definitions& given = {}) {
  const std::string script = launcher + " pretrain_gpt.py --num-layers 2\n";
  const auto read = reading(script, slurm_definitions(script, given));
  std::vector<Note> notes;
  const auto launch = read ? find_launch(*read, notes) : std::nullopt;
  return launch ? launch->gpus : std::nullopt;
}

TEST(MegatronScript, GpusOfTheLauncher) {
  EXPECT_EQ(gpus("torchrun --nproc_per_node 8 --nnodes=4"), 32);
  EXPECT_EQ(gpus("torchrun --nproc-per-node=8 --nnodes 1:4"), 32);
  EXPECT_EQ(gpus("python -m torch.distributed.launch --nproc_per_node 4"), 4);
  EXPECT_EQ(gpus("srun -N4 --ntasks-per-node=8 python"), 32);
  EXPECT_EQ(gpus("srun -N 4 torchrun --nproc_per_node 8"), 32);
  EXPECT_EQ(gpus("mpirun -np 64 python"), 64);
  EXPECT_EQ(gpus("#SBATCH -N 3\n#SBATCH --gres=gpu:h100:8\nsrun python"), 24);
  EXPECT_EQ(gpus("#SBATCH --nodes=3\nsrun torchrun --nproc_per_node 8 --nnodes $SLURM_NNODES"), 24);
  EXPECT_EQ(gpus("#SBATCH --nodes=16 --ntasks-per-node=8\nsrun python", {{"SLURM_NNODES", "4"}}), 32)
      << "what is given holds over the header";
  EXPECT_EQ(gpus("#SBATCH --nodes=3\nX=1\n#SBATCH --ntasks-per-node=8\nsrun python"), std::nullopt)
      << "sbatch reads no header behind a command";
  EXPECT_EQ(gpus("WORLD_SIZE=$((8*2))\npython"), 16);
  EXPECT_EQ(gpus("torchrun --nproc_per_node 8 --nnodes $NNODES"), std::nullopt);
  for (const char* option : {"--gres=gpu:4", "--gpus-per-task=4", "--ntasks=4"})
    EXPECT_EQ(
        gpus(fmt::format("WORLD_SIZE=2\nif [ \"$BIG\" = 1 ]; then EXTRA={}; fi\nsrun -N 2 $EXTRA python", option)),
        std::nullopt)
        << option << " is not decided";
}

// What the command line gives a script is named where it is taken, by the lines of its top level.
TEST(MegatronScript, ParametersHaveNames) {
  EXPECT_THAT(script_parameters("MODE=$1\nexport TP=\"${3}\"  # degree\nAC=${10}\nf() {\n  local x=$2\n  y=$4\n}\n"),
              ElementsAre("MODE", "$2", "TP", "$4", "$5", "$6", "$7", "$8", "$9", "AC"));
  EXPECT_THAT(script_parameters("TP=${1:-8}\nPP=8\nN=$TP\nA=$0\n"), testing::IsEmpty()) << "has its own defaults";
  EXPECT_THAT(last("TP=$2\nrun $TP", {{"1", "a"}, {"2", "8"}}), ElementsAre("run", "8"));
}

TEST(MegatronScript, Layouts) {
  EXPECT_THAT(parse_layout("Et*2|(tt|)*3t|mL").value_or(StageLayout()).counts, ElementsAre(2, 2, 2, 2, 1, 0));
  EXPECT_THAT(parse_layout("E t , t | t L").value_or(StageLayout()).counts, ElementsAre(2, 1));
  for (const char* wrong : {"", "x", "(t", "t*", "((t)*2)*2", "t*9999999999"}) {
    const auto counts = parse_layout(wrong);
    EXPECT_TRUE(!counts || counts->counts == std::vector<std::int64_t>{0}) << wrong;
  }
  EXPECT_EQ(layout_text({3, 4, 2}, true), "Et*3|t*4|t*2mL");
  EXPECT_EQ(layout_text({0, 2, 2, 0, 0}, true), "E|t*2|t*2|m|L");
  EXPECT_THAT(parse_layout("Et*3|(tt|)*29,m|L").value_or(StageLayout()).counts, testing::SizeIs(32));
  for (const std::string usual : {"Et*3|(tt|)*29,m|L", "Ett|tmmL", "E|t|t|L", "EtL"})
    EXPECT_FALSE(parse_layout(usual).value_or(StageLayout{{}, true}).elsewhere) << usual;
  for (const std::string moved : {"tE|tL", "Et|tL|t", "Et|tm|L", "Em|tt|L", "Et|mt|L", "Et|L|m", "t|t"})
    EXPECT_TRUE(parse_layout(moved).value_or(StageLayout()).elsewhere) << moved;
  // 126 layers, the embedding and the loss are 128: one on each of 8 * 16 chunks.
  const auto llama = value_of(accounted_ends(126, 128, true, true));
  EXPECT_EQ(llama.front() + llama.back(), 0);
  EXPECT_EQ(llama[1], 1);
  EXPECT_THAT(accounted_ends(11, 4, false, true), testing::Optional(ElementsAre(3, 3, 3, 2)));
  EXPECT_THAT(accounted_ends(11, 4, true, true), std::nullopt);
  // 16 ranks with 3 and 2 layers at the ends have (61 - 5) / 14 = 4 each between.
  EXPECT_THAT(uneven_ends(61, 16, 1, 3, 2),
              testing::Optional(ElementsAre(3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 2)));
  // Two virtual stages halve what each rank holds; the chunks of all ranks follow one another.
  EXPECT_THAT(uneven_ends(14, 3, 2, 4, std::nullopt), std::nullopt) << "5 layers on a rank are no two equal chunks";
  EXPECT_THAT(uneven_ends(12, 3, 2, 4, std::nullopt), testing::Optional(ElementsAre(2, 2, 2, 2, 2, 2)));
}

TEST(MegatronScript, LayersWithExperts) {
  const std::vector<bool> second = {true, false, true}, behind = {false, true, true}, between = {false, true, false};
  EXPECT_EQ(parse_expert_layers("2", 3), second);
  EXPECT_EQ(parse_expert_layers("([0]*1+[1]*2)", 3), behind);
  EXPECT_FALSE(parse_expert_layers("([0]*3+[1]*58)", 60)) << "a list for another number of layers";
  EXPECT_FALSE(parse_expert_layers("[1]*", 1));
  EXPECT_EQ(expert_layers_text({true, true, true}), "1");
  EXPECT_EQ(expert_layers_text(second), "2");
  EXPECT_EQ(expert_layers_text(behind), "([0]*1+[1]*2)");
  EXPECT_EQ(expert_layers_text(between), "[0,1,0]");
  EXPECT_EQ(expert_layers_text({}), "0");
}

// Types that list their layers have those of a list; DeepSeek's keys have only dense ones first or every n-th.
TEST(MegatronScript, ListsNameAnyLayers) {
  ModelShape shape{.layers = 4, .hidden_size = 64, .heads = 4};
  shape.vocabulary = 1024;
  shape.position = "rope";
  shape.normalization = "RMSNorm";
  shape.no_linear_bias = shape.gated = shape.qk_norm = true;
  shape.window = 16;
  shape.window_layers = "[1,0,0,1]";
  const auto read_back = [](const ModelShape& of) {
    const WrittenConfig written = value_of(config_of(of));
    EXPECT_THAT(written.notes, testing::IsEmpty());
    return value_of(shape_of(written.json, "", {}));
  };
  EXPECT_EQ(read_back(shape).head_dim(), 16) << "as Megatron has it, not the type's 128";
  EXPECT_EQ(read_back(shape).window_layers, "[1,0,0,1]");
  shape.experts = 8;
  shape.expert_layers = "[0,1]*2";
  EXPECT_EQ(read_back(shape).window_layers, "[1,0,0,1]");
  EXPECT_EQ(read_back(shape).expert_layers, "[0,1,0,1]");
  shape.window_layers = "[1]*3";
  EXPECT_EQ(tests::error_of(config_of(shape)).hint, "--window-attn-skip-freq N, or a list with 0 or 1 for each layer");
  shape.latent = true;
  EXPECT_THAT(tests::error_of(config_of(shape)).message, testing::HasSubstr("follow no simple rule"));
}

// Any text can be read, with or without an error.
RC_GTEST_PROP(MegatronScript, AnyTextIsRead, ()) {
  const auto symbols =
      *rc::gen::container<std::string>(rc::gen::elementOf(std::string("$(){}[]\"'`\\\n #;&|<>=+-*/@:aA1 ")));
  const auto script = reading(symbols, {{"a", "b c"}});
  if (!script) RC_ASSERT(script.error().line >= 1);
  parse_layout(symbols);
  parse_expert_layers(symbols, 3);
}

}  // namespace
}  // namespace plumbline::model::megatron
