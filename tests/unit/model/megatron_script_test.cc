// Reads launch scripts as text: the words of their commands, and the line of each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "model/megatron/detail/launch.h"
#include "model/megatron/model_shape.h"
#include "model/megatron/shell/arithmetic.h"
#include "model/megatron/shell/shell.h"
#include "model/megatron/stages.h"

namespace plumbline::model::megatron {
namespace {

using testing::ElementsAre;

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
  return read->commands.empty() ? std::vector<std::string>() : words_of(read->commands.back());
}

TEST(MegatronScript, VariablesAndQuotes) {
  EXPECT_THAT(last("TP=8\nrun --tp $TP --pp=${TP} '$TP' \"a $TP\""),
              ElementsAre("run", "--tp", "8", "--pp=8", "$TP", "a 8"));
  EXPECT_THAT(last("A=\"-x 1 \\\n  -y 2\"\nrun $A \"$A\""), ElementsAre("run", "-x", "1", "-y", "2", "-x 1   -y 2"));
  EXPECT_THAT(last("run ${N:-4} ${M:=\"5\"} ${N:+no} ${TP-2}", {{"TP", "8"}}), ElementsAre("run", "4", "5", "8"));
  EXPECT_THAT(last("export A=1 B=2; C=3 run $A$B$C"), ElementsAre("run", "12$C"));
  EXPECT_THAT(last("TP=4\nrun $TP", {{"TP", "8"}}), ElementsAre("run", "8")) << "what comes from outside holds";
}

TEST(MegatronScript, Arrays) {
  EXPECT_THAT(last("A=(\n  --x 1 # why\n  --y '2 3'\n)\nrun \"${A[@]}\""),
              ElementsAre("run", "--x", "1", "--y", "2 3"));
  EXPECT_THAT(last("A=(--x)\nA+=(--y)\nrun ${A[@]} ${A[1]}"), ElementsAre("run", "--x", "--y", "--y"));
  EXPECT_THAT(last("A=\"-x\"\nA+=\" -y\"\nrun $A"), ElementsAre("run", "-x", "-y"));
  EXPECT_THAT(last("declare -a A=(1 2)\nrun ${A[@]}"), ElementsAre("run", "1", "2"));
  EXPECT_THAT(last("--x 1"), ElementsAre("--x", "1"));
  EXPECT_THAT(last("A=()\nrun \"${A[@]}\" \"$@\" end"), ElementsAre("run", "end"));
}

TEST(MegatronScript, ArithmeticAndWhatOnlyAShellEvaluates) {
  EXPECT_THAT(last("A=8\nrun $((A * 4 / (1 + 1))) $(( $A + -1 ))"), ElementsAre("run", "16", "7"));
  EXPECT_THAT(last("B=$((A * 4))\nrun $B $(hostname -s) $RANK"),
              ElementsAre("run", "$((A * 4))", "$(hostname -s)", "$RANK"));
  const NumberScope none{[](std::string_view) { return std::nullopt; }, [](std::string_view, std::int64_t) {}};
  EXPECT_EQ(arithmetic("9223372036854775807 + 1", none), std::nullopt);
  EXPECT_EQ(arithmetic("1 / 0", none), std::nullopt);
  EXPECT_EQ(arithmetic("09", none), std::nullopt);
  EXPECT_EQ(arithmetic("2 ** 3 + (4 > 3 && 1 != 2 ? 10 : 20) * 2", none), 28);
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
    return word.unknown ? "unknown" : word.text;
  };
  const std::vector<std::pair<std::string, std::string>> known = {
      {"A=(1 2 8); TP=${A[-1]}", "8"},
      {"A=(1 2); A[1]=8; TP=${A[@]}", "1 8"},
      {"A=(1 2); A=(8); TP=${A[1]:-8}", "8"},
      {"A=(--x 'a b'); TP=\"in ${A[@]} out\"", "in --x a b out"},
      {"declare -A M=([7b]=8 [70b]=2); TP=${M[7b]}", "8"},
      {"tp=1; pp=1; declare -A M; M[tp]=8; M[pp]=4; TP=${M[tp]}", "8"},
      {"i=1; A=(2 8); TP=${A[i]}", "8"},
      {"X=8.5; TP=${X%.*}", "8"},
      {"X=a/b/8; TP=${X##*/}", "8"},
      {"X=v8.sh; TP=$(basename $X .sh); TP=${TP#v}", "8"},
      {"(( TP = 1 ? 8 : 2 ))", "8"},
      {"TP=$((2 ** 3 ** 2))", "512"},
      {"X=1; (( X || (TP = 2) )); TP=${TP:-8}", "8"},
      {"i=0; while (( i < 8 )); do (( i++ )); done; TP=$i", "8"},
      {"f() { local X=2; h; }; X=8; h() { TP=$X; }; f", "2"},
      {"f() { echo 8 >&2; echo 3; }; TP=$(f)", "3"},
      {"TP=8 | cat", "4"},
      {"TP=8 true", "4"},
      {"T\\\nP=8", "8"},
      {"[[ v8 =~ ^v[0-9]$ ]] && TP=8", "8"},
      {"unset TP; TP=${TP-8}", "8"},
      {"X=' 8 '; [[ \"\" -eq 0 ]] && TP=$((X))", "unknown"},
  };
  for (const auto& [script, expected] : known) EXPECT_EQ(value(script), expected) << script;
  for (const std::string script : {"printf -v TP %d 8",
                                   "read TP <<< 8",
                                   "TP=$((010))",
                                   "TP=$((16#8))",
                                   "X=008; TP=$((X))",
                                   "A=(1); X=${A[$N]:-2}; TP=$X",
                                   "TP=8; [ -n \"$X\" ] && TP=2",
                                   "for TP in $(seq 8); do :; done",
                                   "while getopts t: o; do TP=$OPTARG; done",
                                   "A=({1..8}); TP=${#A[@]}",
                                   "X=8B; TP=${X,,}",
                                   "X=Y; Y=8; TP=${!X}",
                                   "TP=$'8\\n'",
                                   "X=([3]=8 9); TP=${#X[@]}",
                                   "TP=$([ -n \"$X\" ] && echo 8 || echo 2)",
                                   "TP=$(echo 8 | tr -d x)",
                                   "[[ 08 -eq 8 ]] && TP=2 || TP=8",
                                   "TP=8; for x in $LIST; do TP=$U; U=2; done",
                                   "mapfile -t TP < f",
                                   "TP=${@: -1}"})
    EXPECT_EQ(value(script), "unknown") << script;
  for (const std::string script :
       {"declare -i TP=1; TP+=7", "TP=8; readonly TP; TP=2", "shopt -s nocasematch; TP=8",
        "f() { local -n r=$1; r=8; }; f TP", "case x in x) TP=2;& y) TP=8;; esac",
        "case x in x) TP=2;;& *) TP=8;; esac", "IFS=,; A=8,4; set -- $A; TP=$1", "TP=2 f() { :; }",
        "select x in a; do TP=$x; done", "set -- 1 2; [ -n \"$X\" ] && shift", "coproc TP=8"})
    EXPECT_EQ(value(script), "refused") << script;
}

// Conditions that are not decided leave what both outcomes have in common.
TEST(MegatronScript, OutcomesHaveACommonPart) {
  const auto script = reading(
      "A=(--x 1)\nif [ -n \"$LOG\" ]; then A+=(--save s); fi\nA+=(--y 2)\nrun \"${A[@]}\"\n"
      "B='--x 1 --y 2'\n[ -n \"$LOG\" ] && B=\"--x 1 --z 3\"\nrun $B\n");
  ASSERT_TRUE(script) << to_string(script.error());
  EXPECT_THAT(words_of(script->commands.at(0)), ElementsAre("run", "--x", "1", "$A", "--y", "2"));
  EXPECT_TRUE(script->commands[0][3].unknown);
  EXPECT_THAT(words_of(script->commands.at(1)), ElementsAre("run", "--x", "1", "$B"));
  ASSERT_EQ(script->open.size(), 2u);
  EXPECT_EQ(script->open[0].line, 2);
  EXPECT_EQ(script->open[0].reason, "'[ -n \"$LOG\" ]' with LOG is not decided");
  EXPECT_THAT(script->open[0].outcomes, ElementsAre("--save s", ""));
}

TEST(MegatronScript, GuardsOfFilesAreTakenToHold) {
  const auto script = reading(
      "if [ ! -f pretrain_gpt.py ]; then\n  echo missing; exit 1\nfi\n"
      "[[ -d $DATA && -e a ]] || exit 1\npython a.py\n");
  ASSERT_TRUE(script) << to_string(script.error());
  EXPECT_THAT(words_of(script->commands.back()), ElementsAre("python", "a.py"));
  std::vector<std::string> notes;
  for (const Word& note : script->notes)
    notes.push_back(std::to_string(note.line) + " " + note.text.substr(0, note.text.find(" is taken to hold")));
  EXPECT_THAT(notes, ElementsAre("1 '-f pretrain_gpt.py'", "4 '-d $DATA'", "4 '-e a'"));
}

TEST(MegatronScript, ATrainingThatIsNotDecidedIsRefused) {
  const auto refused = [](const std::string& script) {
    const auto read = reading(script);
    return read ? "" : std::to_string(read.error().line) + " " + read.error().message;
  };
  EXPECT_EQ(refused("if [ -n \"$M\" ]; then\npython a.py\nelse\npython b.py\nfi\n"),
            "1 '[ -n \"$M\" ]' with M decides which training is started");
  EXPECT_EQ(refused("if [ -n \"$M\" ]; then\npython a.py\nexit\nfi\npython b.py\n"),
            "5 whether this training is started, or one before it, is decided by line 1");
  EXPECT_EQ(refused("if [ -n \"$M\" ]; then\necho usage\nexit 1\nfi\npython b.py\n"), "");
  EXPECT_EQ(refused("[ -n \"$M\" ] && python a.py\n"), "");
}

TEST(MegatronScript, WordsHaveTheirLines) {
  const auto script = reading("A=\"--x 1\n  --y 2\"\n\nrun \\\n  $A --z\n");
  ASSERT_TRUE(script);
  std::vector<int> lines;
  for (const Word& word : script->commands.back()) lines.push_back(word.line);
  EXPECT_THAT(lines, ElementsAre(4, 1, 1, 2, 2, 5));
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

std::optional<std::int64_t> gpus(const std::string& launcher) {
  const std::string script = launcher + " pretrain_gpt.py --num-layers 2\n";
  const auto read = reading(script, slurm_definitions(script));
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
  EXPECT_EQ(gpus("WORLD_SIZE=$((8*2))\npython"), 16);
  EXPECT_EQ(gpus("torchrun --nproc_per_node 8 --nnodes $NNODES"), std::nullopt);
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
  const auto llama = accounted_ends(126, 128, true, true);
  ASSERT_TRUE(llama);
  EXPECT_EQ(llama->front() + llama->back(), 0);
  EXPECT_EQ((*llama)[1], 1);
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
  const auto deepseek = parse_expert_layers("([0]*3+[1]*58)", 61);
  ASSERT_TRUE(deepseek);
  EXPECT_EQ(deepseek->dense_first, 3);
  EXPECT_EQ(parse_expert_layers("2", 61)->frequency, 2);
  EXPECT_FALSE(parse_expert_layers("([0]*3+[1]*58)", 60)) << "a list for another number of layers";
  EXPECT_FALSE(parse_expert_layers("[1,0,1]", 3));
  EXPECT_FALSE(parse_expert_layers("[1]*", 1));
  EXPECT_EQ(expert_layers_text({3, 1}, 61), "([0]*3+[1]*58)");
  EXPECT_EQ(expert_layers_text({0, 2}, 61), "2");
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
