#include "model/base/error.h"

#include <gtest/gtest.h>

#include "model/base/data_type.h"
#include "model/base/provenance.h"

namespace plumbline::model {
namespace {

TEST(Error, PrintsPlaceKeyMessageAndHint) {
  const Error error{
      ErrorKind::input, "unknown key", "plan.toml", 12, "parallelism.pipelin", "did you mean 'parallelism.pipeline'?"};
  EXPECT_EQ(to_string(error), "plan.toml:12: parallelism.pipelin: unknown key (did you mean 'parallelism.pipeline'?)");
}

TEST(Error, LeavesOutWhatIsUnknown) {
  EXPECT_EQ(to_string(Error{ErrorKind::infeasible, "does not fit", "", 0, "", ""}), "does not fit");
  EXPECT_EQ(to_string(Error{ErrorKind::input, "no such file", "a.toml", 0, "", ""}), "a.toml: no such file");
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

}  // namespace
}  // namespace plumbline::model
