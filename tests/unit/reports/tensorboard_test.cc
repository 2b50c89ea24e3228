#include "reports/tensorboard/tensorboard.h"

#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/event_file.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::reports {
namespace {

using tests::doubles_of;
using tests::fields_of;
using tests::records_of;
using tests::slow_crc32c;

TEST(TensorBoard, ChecksumsAreThoseOfTheStandard) {
  // RFC 3720, appendix B.4, and the check value of CRC-32C.
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  std::string ascending(32, '\0');
  std::iota(ascending.begin(), ascending.end(), '\0');
  EXPECT_EQ(crc32c(ascending), 0x46dd794eU);
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(slow_crc32c("123456789"), 0xe3069283U);
}

TEST(TensorBoard, BeginsWithTheVersion) {
  const tests::TemporaryDirectory folder;
  const auto board = TensorBoard::create((folder.path() / "new" / "run").string(), 1234567890.5).value();
  const std::string name = std::filesystem::path(board.path()).filename().string();
  EXPECT_TRUE(name.starts_with("events.out.tfevents.1234567890.")) << name;
  EXPECT_TRUE(name.ends_with(".plumbline")) << name;
  const auto records = records_of(board.path());
  ASSERT_EQ(records.size(), 1U);
  const auto event = fields_of(records[0]);
  EXPECT_EQ(event.find(1)->second.number(), 1234567890.5);
  EXPECT_EQ(event.find(3)->second.bytes, "brain.Event:2");
}

TEST(TensorBoard, HoldsTheScalarsOfEachStepAsSoonAsTheyAreWritten) {
  const tests::TemporaryDirectory folder;
  auto board = TensorBoard::create(folder.path().string(), 100).value();
  for (std::int64_t step = 1; step <= 3; ++step) {
    const std::int64_t number = step * 1000;  // a varint of two bytes
    ASSERT_TRUE(board.write(number, 100 + static_cast<double>(step),
                            {{"loss", 0.5 * static_cast<double>(step)}, {"time/step_s", 0.25}}));
    const auto records = records_of(board.path());  // while the file is still open
    ASSERT_EQ(records.size(), static_cast<std::size_t>(step + 1));
    const auto event = fields_of(records.back());
    EXPECT_EQ(event.find(1)->second.number(), 100 + static_cast<double>(step));
    EXPECT_EQ(event.find(2)->second.bits, static_cast<std::uint64_t>(number));
    const auto summary = fields_of(event.find(5)->second.bytes);
    ASSERT_EQ(summary.count(1), 2U);
    const auto loss = fields_of(summary.find(1)->second.bytes);
    EXPECT_EQ(loss.find(1)->second.bytes, "loss");
    EXPECT_EQ(std::bit_cast<float>(static_cast<std::uint32_t>(loss.find(2)->second.bits)),
              0.5F * static_cast<float>(step));
  }
}

std::multimap<std::uint64_t, tests::Field> histogram_of(const std::vector<double>& values) {
  const tests::TemporaryDirectory folder;
  auto board = TensorBoard::create(folder.path().string(), 100).value();
  EXPECT_TRUE(board.write(1, 101, {}, {{"load/layer_3", values}}));
  const auto event = fields_of(records_of(board.path()).back());
  const auto summary = fields_of(event.find(5)->second.bytes);
  const auto value = fields_of(summary.find(1)->second.bytes);
  EXPECT_EQ(value.find(1)->second.bytes, "load/layer_3");
  return fields_of(value.find(5)->second.bytes);
}

TEST(TensorBoard, HistogramsHoldEveryValueOnce) {
  std::vector<double> values(256);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>((i * 37) % 101);
  const auto histogram = histogram_of(values);
  EXPECT_EQ(histogram.find(1)->second.number(), 0);
  EXPECT_EQ(histogram.find(2)->second.number(), 100);
  EXPECT_EQ(histogram.find(3)->second.number(), 256);
  EXPECT_EQ(histogram.find(4)->second.number(), std::accumulate(values.begin(), values.end(), 0.0));
  EXPECT_EQ(histogram.find(5)->second.number(), std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
  const auto limits = doubles_of(histogram.find(6)->second.bytes);
  const auto counts = doubles_of(histogram.find(7)->second.bytes);
  ASSERT_EQ(limits.size(), counts.size());
  EXPECT_EQ(limits.back(), 100);
  double below = -1;
  for (std::size_t b = 0; b < limits.size(); ++b) {
    EXPECT_GT(limits[b], below);
    double expected = 0;
    for (const double value : values) expected += value > below && value <= limits[b] ? 1 : 0;
    EXPECT_EQ(counts[b], expected) << limits[b];
    below = limits[b];
  }
}

TEST(TensorBoard, HistogramOfEqualValuesHasOneBucket) {
  const auto histogram = histogram_of({8, 8, 8});
  EXPECT_EQ(doubles_of(histogram.find(6)->second.bytes), (std::vector<double>{8}));
  EXPECT_EQ(doubles_of(histogram.find(7)->second.bytes), (std::vector<double>{3}));
}

TEST(TensorBoard, NamesThePathThatItCannotWrite) {
  const tests::TemporaryDirectory folder;
  const std::string file = folder.write("file", "").string();
  const auto board = TensorBoard::create(file + "/run", 100);
  ASSERT_FALSE(board);
  EXPECT_EQ(board.error().file, file + "/run");
}

}  // namespace
}  // namespace plumbline::reports
