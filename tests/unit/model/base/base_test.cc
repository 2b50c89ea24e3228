#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <string>

#include "model/base/bytes.h"
#include "model/base/data_type.h"
#include "model/base/distinct.h"
#include "model/base/error.h"
#include "model/base/provenance.h"
#include "model/base/statistics.h"
#include "model/base/text.h"
#include "model/base/text_file.h"
#include "model/result/result.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::model {
namespace {

struct Mixed {
  double number = 0;
  std::optional<double> maybe;
  std::string text;
  std::vector<std::pair<std::int64_t, std::string>> rows;
  std::map<std::string, std::vector<double>> table;
  std::array<std::optional<std::int64_t>, 3> slots;
  Evidence kind = Evidence::assumed;
  Result<double> done;
  bool operator==(const Mixed&) const = default;
};

struct Wide {
  int a0 = 0, a1 = 0, a2 = 0, a3 = 0, a4 = 0, a5 = 0, a6 = 0, a7 = 0, a8 = 0, a9 = 0, b0 = 0, b1 = 0, b2 = 0, b3 = 0,
      b4 = 0, b5 = 0, b6 = 0, b7 = 0, b8 = 0, b9 = 0, c0 = 0, c1 = 0, c2 = 0, c3 = 0, c4 = 0, c5 = 0, c6 = 0, c7 = 0,
      c8 = 0, c9 = 0, d0 = 0, d1 = 0, d2 = 0, d3 = 0, d4 = 0, d5 = 0, d6 = 0, d7 = 0, d8 = 0, d9 = 0, e0 = 0, e1 = 0,
      e2 = 0, e3 = 0, e4 = 0, e5 = 0, e6 = 0;
};

// 47 members, which are none of a round number of tens.
TEST(Bytes, OfAWideStructAreThoseOfEachMember) {
  Wide wide;
  wide.a0 = 1;
  wide.e6 = 2;
  EXPECT_EQ(to_bytes(wide).size(), 47 * sizeof(int));
  const auto back = from_bytes<Wide>(to_bytes(wide));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->a0, 1);
  EXPECT_EQ(back->d9, 0);
  EXPECT_EQ(back->e6, 2);
}

TEST(Bytes, GiveBackWhatWasWritten) {
  const double below_zero = -0.0, odd = std::numeric_limits<double>::denorm_min();
  const Mixed full{odd,
                   below_zero,
                   std::string("a\0b", 3),
                   {{1, "x"}, {2, ""}},
                   {{"k", {1, 2}}},
                   {1, std::nullopt, 3},
                   Evidence::fitted,
                   1.5};
  const auto back = from_bytes<Mixed>(to_bytes(full));
  ASSERT_TRUE(back);
  EXPECT_EQ(to_bytes(*back), to_bytes(full));
  EXPECT_EQ(back->number, odd);
  EXPECT_TRUE(std::signbit(*back->maybe));
  EXPECT_EQ(back->text.size(), 3u);
  EXPECT_EQ(back->rows, full.rows);
  EXPECT_EQ(back->table, full.table);
  EXPECT_EQ(back->slots, full.slots);
  EXPECT_EQ(*back->done, 1.5);
}

TEST(Bytes, KeepErrors) {
  const Result<double> failed = wrong_input_at("plan.toml", 7, "batch.size", "is odd", "make it even");
  const auto back = from_bytes<Result<double>>(to_bytes(failed));
  ASSERT_TRUE(back);
  ASSERT_FALSE(*back);
  EXPECT_EQ(to_string(back->error()), to_string(failed.error()));
  EXPECT_EQ(back->error().kind, ErrorKind::input);
}

TEST(Bytes, HoldEveryMemberOfAResult) {
  StepTimes step;
  step.time_s = 15.4;
  step.clock[2] = 0.9;
  step.breakdown = {{"GEMM", 9.0}, {"attention", 6.4}};
  const auto back = from_bytes<StepTimes>(to_bytes(step));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->time_s, 15.4);
  EXPECT_EQ(back->clock[2], 0.9);
  EXPECT_EQ(back->breakdown[1].name, "attention");
}

TEST(Bytes, OfAnotherLengthAreRefused) {
  const std::string bytes = to_bytes(std::vector<std::string>{"abc", "def"});
  EXPECT_FALSE(from_bytes<std::vector<std::string>>(bytes.substr(0, bytes.size() - 1)));
  EXPECT_FALSE(from_bytes<std::vector<std::string>>(bytes + "x"));
  EXPECT_FALSE(from_bytes<std::vector<std::string>>(std::string(8, '\xff')));
  EXPECT_FALSE(from_bytes<double>(""));
}

// The values of the reference implementation (http://www.isthe.com/chongo/tech/comp/fnv/).
TEST(Bytes, HashIsThatOfFnv) {
  EXPECT_EQ(hash_of(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(hash_of("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(hash_of("bar", hash_of("foo")), hash_of("foobar"));
  EXPECT_EQ(hash_of("foobar"), 0x85944171f73967e8ULL);
}

TEST(Distinct, KeepsTheOrderOfFirstRows) {
  struct Row {
    std::string set;
    int value;
  };
  const std::vector<Row> rows = {{"b", 1}, {"a", 2}, {"b", 3}};
  EXPECT_EQ(distinct(rows, &Row::set), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(distinct(rows, [](const Row& row) { return row.value % 2; }), (std::vector<int>{1, 0}));
}

TEST(Error, PrintsPlaceKeyMessageAndHint) {
  const Error error{
      ErrorKind::input, "unknown key", "plan.toml", 12, "parallelism.pipelin", "did you mean 'parallelism.pipeline'?"};
  EXPECT_EQ(to_string(error), "plan.toml:12: parallelism.pipelin: unknown key (did you mean 'parallelism.pipeline'?)");
}

TEST(Error, LeavesOutWhatIsUnknown) {
  EXPECT_EQ(to_string(Error{ErrorKind::infeasible, "does not fit", "", 0, "", ""}), "does not fit");
  EXPECT_EQ(to_string(Error{ErrorKind::input, "no such file", "a.toml", 0, "", ""}), "a.toml: no such file");
}

TEST(Error, CutsWordsThatNobodyReads) {
  const auto shown = [](const std::string& message) {
    return to_string(Error{ErrorKind::input, message, "", 0, "", ""});
  };
  const std::string longest(1000, 'a');
  EXPECT_EQ(shown(longest), longest);
  EXPECT_EQ(shown("found " + longest + "a here"), "found " + std::string(100, 'a') + "... (1001 bytes) here");
  std::string accents = "a";
  for (int i = 0; i < 600; ++i) accents += "\xC3\xA9";
  EXPECT_EQ(shown(accents), accents.substr(0, 99) + "... (1201 bytes)");  // byte 100 continues a character
}

TEST(Error, QuotesNoControlCharacters) {
  EXPECT_EQ(to_string(Error{ErrorKind::input, "unknown key '\x1b[2J'", "a.yaml", 3, "", ""}),
            "a.yaml:3: unknown key '\\x1b[2J'");
}

TEST(NearestName, FindsTypingErrorsOnly) {
  const std::vector<std::string> names = {"gpipe", "1f1b", "dualpipe"};
  EXPECT_EQ(nearest_name("dualpip", names), "dualpipe");
  EXPECT_EQ(nearest_name("DualPipe", names), "dualpipe");
  EXPECT_EQ(nearest_name("1fb1", names), "1f1b");  // a swap is one edit
  EXPECT_EQ(nearest_name("interleaved", names), "");
  EXPECT_EQ(nearest_name("", names), "");
}

TEST(DidYouMean, TakesAWordOfANameToo) {
  const std::vector<std::string> names = {"h100-sxm-96gb", "h100-sxm", "gb200-nvl72", "mi300x"};
  EXPECT_EQ(did_you_mean("H100", names), "did you mean 'h100-sxm'?");
  EXPECT_EQ(did_you_mean("nvl72", names), "did you mean 'gb200-nvl72'?");
  EXPECT_EQ(did_you_mean("mi300x-datasheet", names), "did you mean 'mi300x'?");
  EXPECT_EQ(did_you_mean("h10", names), "");
  EXPECT_EQ(did_you_mean("", names), "");
}

TEST(DataType, CountsTheScales) {
  // One FP32 scale per 128 elements of an activation, per 128 x 128 of a weight.
  EXPECT_DOUBLE_EQ(bytes_per_element(DataType::fp8_tile), 1 + 4.0 / 128);
  EXPECT_DOUBLE_EQ(bytes_per_element(DataType::fp8_block), 1 + 4.0 / 16384);
  EXPECT_DOUBLE_EQ(bytes_per_element(DataType::e5m6), 1.5 + 4.0 / 128);
  EXPECT_DOUBLE_EQ(bytes_per_element(DataType::bf16), 2);
  // One byte per 32 elements, and per 16 of NVFP4.
  EXPECT_DOUBLE_EQ(bytes_per_element(DataType::mxfp8), 1.03125);
  EXPECT_DOUBLE_EQ(bytes_per_element(DataType::mxfp4), 0.53125);
  EXPECT_DOUBLE_EQ(bytes_per_element(DataType::nvfp4), 0.5625);
  EXPECT_EQ(activation_type(Precision::fp8), DataType::fp8_tile);
  EXPECT_EQ(weight_type(Precision::fp8), DataType::fp8_block);
  EXPECT_EQ(weight_type(Precision::fp16), DataType::fp16);
}

TEST(DataType, WeightsOfMostQuantizedFormatsAreStoredInBf16) {
  EXPECT_TRUE(is_block_scaled(Precision::fp8));
  for (const Precision precision : {Precision::mxfp8, Precision::nvfp4, Precision::mxfp4}) {
    EXPECT_TRUE(is_quantized(precision) && is_block_scaled(precision));
    EXPECT_EQ(weight_type(precision), DataType::bf16);
    EXPECT_EQ(to_string(activation_type(precision)), to_string(precision));
  }
  EXPECT_TRUE(is_quantized(Precision::fp8_tensor) && !is_block_scaled(Precision::fp8_tensor));
  EXPECT_FALSE(is_quantized(Precision::bf16) || is_quantized(Precision::tf32) || is_quantized(DataType::e5m6));
}

TEST(Words, RoundTripAndSuggest) {
  for (const Precision precision : {Precision::fp8, Precision::bf16, Precision::fp16, Precision::fp32, Precision::mxfp8,
                                    Precision::nvfp4, Precision::mxfp4})
    EXPECT_EQ(parse_precision(to_string(precision)).value(), precision);
  for (const Evidence evidence :
       {Evidence::measured, Evidence::fitted, Evidence::published, Evidence::datasheet, Evidence::assumed})
    EXPECT_EQ(parse_evidence(to_string(evidence)).value(), evidence);
  EXPECT_NE(parse_precision("bf61").error().hint.find("'bf16'"), std::string::npos);
  EXPECT_NE(parse_evidence("mesured").error().hint.find("'measured'"), std::string::npos);
}

// Place 0.9 * 3 = 2.7 of 1, 2, 4, 8: 4 + 0.7 * 4.
TEST(Quantile, LiesBetweenItsNeighbors) {
  EXPECT_DOUBLE_EQ(quantile({8, 1, 4, 2}, 0.9), 6.8);
  EXPECT_DOUBLE_EQ(quantile({8, 1, 4, 2}, 0.5), 3);
  EXPECT_EQ(quantile({8, 1, 4, 2}, 0), 1);
  EXPECT_EQ(quantile({8, 1, 4, 2}, 1), 8);
  EXPECT_EQ(quantile({3}, 0.5), 3);
}

// Place 0.5 * 3 = 1.5 lies between two infinite values, 0.1 * 3 between finite ones.
TEST(Quantile, MayBeInfinite) {
  constexpr double never = std::numeric_limits<double>::infinity();
  EXPECT_EQ(quantile({1, never, never, never}, 0.5), never);
  EXPECT_DOUBLE_EQ(quantile({1, 2, never, never}, 0.1), 1.3);
}

TEST(UpperMedian, IsTheLargerOfTwo) {
  EXPECT_EQ(upper_median<std::int64_t>({5, 1, 3}), 3);
  EXPECT_EQ(upper_median<double>({5, 1, 3, 4}), 4);
}

// Of two normal draws 1 / sqrt(pi), of three 1.5 / sqrt(pi); 2.3439 of 64 is tabulated (Harter 1961: 2.34 of 64).
TEST(ExpectedLargest, IsThatOfNormalDraws) {
  EXPECT_EQ(expected_largest(1), 0);
  EXPECT_NEAR(expected_largest(2), 1 / std::sqrt(std::numbers::pi), 1e-6);
  EXPECT_NEAR(expected_largest(3), 1.5 / std::sqrt(std::numbers::pi), 1e-6);
  EXPECT_NEAR(expected_largest(64), 2.344, 0.001);
  EXPECT_GT(expected_largest(1 << 20), 4.5);
}

// Reading of input files: what no parser of ours should meet is refused before it does.

std::string repeated(const std::string& part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

bool too_deep(const std::string& text) { return !check_nesting(text, "file"); }

TEST(Nesting, BracketsAndDottedKeysAreBoundedWhateverTheFileIsCalled) {
  EXPECT_TRUE(too_deep(repeated("[", 100000)));
  EXPECT_TRUE(too_deep(repeated("{\"a\":", 100000)));
  EXPECT_TRUE(too_deep(repeated("a.", 100000) + "b = 1"));
  EXPECT_TRUE(too_deep("[ " + repeated("a . ", 100000) + "b ]"));
  EXPECT_FALSE(too_deep(repeated("[", 60) + repeated("]", 60)));
}

TEST(Nesting, NothingHidesBehindQuotesAndComments) {
  EXPECT_TRUE(too_deep("'\"'." + repeated("a.", 1000) + "b = 1"));
  EXPECT_TRUE(too_deep("x = 'a\\'\n" + repeated("a.", 1000) + "b = 1"));
  EXPECT_TRUE(too_deep("x = {a = \"\"\"text\"\"\"\", " + repeated("a.", 1000) + "b = 1}"));
  EXPECT_TRUE(too_deep("# don't\n" + repeated("a.", 1000) + "b = 1"));
}

TEST(Nesting, TextMayHaveAnyBracketsAndDots) {
  EXPECT_FALSE(too_deep("x = '" + repeated("[", 1000) + "'"));
  EXPECT_FALSE(too_deep("x = \"\\\"" + repeated("[", 1000) + "\""));
  EXPECT_FALSE(too_deep("x = \"\"\"" + repeated("[\n\"", 1000) + "\"\"\""));
  EXPECT_FALSE(too_deep("# " + repeated("[.", 1000)));
  EXPECT_FALSE(too_deep("x = [" + repeated("1.5,", 1000) + "]"));
}

TEST(Nesting, TheErrorNamesTheLine) {
  const auto checked = check_nesting("a = 1\nb = " + repeated("[", 100), "plan.toml");
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().file, "plan.toml");
  EXPECT_EQ(checked.error().line, 2);
}

TEST(ReadTextFile, ItsTextBeginsBehindAByteOrderMark) {
  const tests::TemporaryDirectory folder;
  EXPECT_EQ(read_text_file(folder.write("mine.csv", "\xEF\xBB\xBFrank,slot\n").string()), "rank,slot\n");
}

TEST(ReadTextFile, IsInUtf8) {
  const tests::TemporaryDirectory folder;
  const auto refused_line = [&](const std::string& text) {
    const auto read = read_text_file(folder.write("any.csv", text).string());
    return read ? 0 : read.error().line;
  };
  EXPECT_EQ(refused_line("caf\xC3\xA9\n\xE2\x96\x88\n\xF0\x9F\x98\x80"), 0);
  EXPECT_EQ(refused_line("a\ncaf\xE9\n"), 2);  // as in Latin-1
  EXPECT_EQ(refused_line("a\nb\n\xE2\x96"), 3);
  EXPECT_EQ(read_file(folder.write("any.log", "\xE9").string()), "\xE9");
}

TEST(ReadTextFile, AReadErrorNamesTheFile) {
  const auto text = read_text_file("/proc/self/mem");  // opens, and cannot be read at its start
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().file, "/proc/self/mem");
}

TEST(Text, HasSmallLettersOfAsciiAlone) {
  EXPECT_EQ(lower_case("Qwen3_MoE-30B"), "qwen3_moe-30b");
  EXPECT_EQ(lower_case("\xC3\x84"), "\xC3\x84");  // a letter of two bytes in UTF-8, neither of which is ASCII
  EXPECT_EQ(lower_case(""), "");
}

TEST(Text, ContainsItsParts) {
  EXPECT_TRUE(contains("layers.0.q_proj", "q_"));
  EXPECT_TRUE(contains("a", ""));
  EXPECT_FALSE(contains("", "a"));
}

// Escape sequences move the cursor, set the window's title or answer as if typed: they begin with ESC, or with its C1
// forms U+0080 to U+009F. Letters, tabs and line ends stay.
TEST(Text, IsPrintableWithoutControlCharacters) {
  EXPECT_EQ(printable("a\tb\n\xC3\x84"), "a\tb\n\xC3\x84");
  EXPECT_EQ(printable("\x1b]0;title\x07"), "\\x1b]0;title\\x07");
  EXPECT_EQ(printable("over\rwritten\x7f"), "over\\x0dwritten\\x7f");
  EXPECT_EQ(printable("\xC2\x9B[2J \xC2\xA0"), "\\x9b[2J \xC2\xA0");
  EXPECT_EQ(printable("\xC2"), "\xC2");
}

TEST(Text, IsAFieldOfACsvFile) {
  EXPECT_EQ(csv_field("plain text"), "plain text");
  EXPECT_EQ(csv_field("a, \"b\""), "\"a, \"\"b\"\"\"");
  EXPECT_EQ(csv_field(""), "");
}

}  // namespace
}  // namespace plumbline::model
