#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "real/executor/training/prefetch.h"
#include "real/executor/training/text.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::real {
namespace {

using model::to_string;
using Tokens = std::vector<std::int32_t>;

std::unique_ptr<TextSource> text_of(const TextOptions& options) {
  auto text = synthetic_text(options);
  EXPECT_TRUE(text) << to_string(text.error());
  return std::move(*text);
}

TEST(SyntheticText, SequencesArePureFunctionsOfSeedAndNumber) {
  const TextOptions options{.vocabulary = 1000, .sequence_length = 64, .seed = 7};
  const auto a = text_of(options), b = text_of(options);
  const Tokens third = a->sequence(3).value();
  EXPECT_EQ(third.size(), 65U);
  EXPECT_NE(a->sequence(4).value(), third);
  EXPECT_EQ(a->sequence(3).value(), third);
  EXPECT_EQ(b->sequence(3).value(), third);
  EXPECT_NE(text_of({.vocabulary = 1000, .sequence_length = 64, .seed = 8})->sequence(3).value(), third);
}

TEST(SyntheticText, UsesTheVocabularyOfTheModel) {
  for (const std::int64_t vocabulary : {2, 50, 129280}) {
    const auto text = text_of({.vocabulary = vocabulary, .sequence_length = 4096});
    std::int32_t largest = 0;
    for (std::int64_t i = 0; i < 8; ++i) {
      const Tokens tokens = text->sequence(i).value();
      EXPECT_GE(*std::min_element(tokens.begin(), tokens.end()), 0);
      largest = std::max(largest, *std::max_element(tokens.begin(), tokens.end()));
    }
    EXPECT_LT(largest, vocabulary);
    EXPECT_GE(largest, vocabulary / 2);
  }
}

// Returns the entropy in nats of what follows each key.
template <class Key>
double entropy(const std::map<Key, std::map<std::int32_t, double>>& counts) {
  double sum = 0, total = 0;
  for (const auto& [key, followers] : counts) {
    double n = 0;
    for (const auto& [token, count] : followers) n += count;
    for (const auto& [token, count] : followers) sum -= count * std::log(count / n);
    total += n;
  }
  return sum / total;
}

TEST(SyntheticText, HasFrequenciesAndSuccessorsToLearn) {
  const auto text = text_of({.vocabulary = 256, .sequence_length = 1024});
  std::map<int, std::map<std::int32_t, double>> alone;
  std::map<std::int32_t, std::map<std::int32_t, double>> behind;
  for (std::int64_t i = 0; i < 500; ++i) {
    const Tokens tokens = text->sequence(i).value();
    for (std::size_t t = 0; t + 1 < tokens.size(); ++t) {
      alone[0][tokens[t + 1]] += 1;
      behind[tokens[t]][tokens[t + 1]] += 1;
    }
  }
  EXPECT_LT(entropy(alone), std::log(256) - 0.5);
  // Known successors leave at most (ln 2) / 2 + (ln 4) / 4 + 2 (ln 8) / 8 = 1.21 nats, and an eighth of at most ln 256.
  EXPECT_LT(entropy(behind), 1.213 + std::log(256) / 8);
  EXPECT_LT(entropy(behind), entropy(alone) - 1);
}

TEST(SyntheticText, RefusesWhatCannotBeTrainedOn) {
  EXPECT_EQ(to_string(synthetic_text({.vocabulary = 1, .sequence_length = 8}).error()),
            "vocab_size: a vocabulary of 1 tokens cannot be trained on; 2 to 2^24 can");
  EXPECT_FALSE(synthetic_text({.vocabulary = (1 << 24) + 1, .sequence_length = 8}));
  EXPECT_FALSE(synthetic_text({.vocabulary = 8, .sequence_length = 0}));
}

TEST(FileText, ReadsEachWindowOncePerPassInTheOrderOfTheSeed) {
  const tests::TemporaryDirectory folder;
  std::string letters(61, ' ');
  std::iota(letters.begin(), letters.end(), static_cast<char>(-30));  // bytes above 127 too
  const std::string path = folder.write("text.txt", letters).string();
  const auto text = file_text(path, {.vocabulary = 256, .sequence_length = 4, .seed = 3}).value();
  std::vector<std::vector<std::int32_t>> passes(2);
  for (std::int64_t i = 0; i < 30; ++i) {
    const Tokens tokens = text->sequence(i).value();
    ASSERT_EQ(tokens.size(), 5U);
    const std::size_t first = letters.find(static_cast<char>(tokens[0]));
    for (std::size_t t = 0; t < 5; ++t) EXPECT_EQ(tokens[t], static_cast<unsigned char>(letters[first + t]));
    passes[static_cast<std::size_t>(i / 15)].push_back(static_cast<std::int32_t>(first));
  }
  EXPECT_NE(passes[0], passes[1]);
  for (auto& pass : passes) {
    EXPECT_FALSE(std::is_sorted(pass.begin(), pass.end()));
    std::sort(pass.begin(), pass.end());
    for (std::size_t w = 0; w < 15; ++w) EXPECT_EQ(pass[w], static_cast<std::int32_t>(4 * w));
  }
}

TEST(FileText, TheShortestTextHasOneWindow) {
  const tests::TemporaryDirectory folder;
  const std::string path = folder.write("text.txt", "abcde").string();
  const auto text = file_text(path, {.vocabulary = 300, .sequence_length = 4}).value();
  EXPECT_EQ(text->sequence(0).value(), (Tokens{'a', 'b', 'c', 'd', 'e'}));
  EXPECT_EQ(text->sequence(12345).value(), text->sequence(0).value());
}

TEST(FileText, GivesTheReason) {
  const tests::TemporaryDirectory folder;
  const std::string path = folder.write("text.txt", "abcd").string();
  EXPECT_EQ(to_string(file_text(path, {.vocabulary = 256, .sequence_length = 4}).error()),
            path +
                ": 4 bytes of text are less than one sequence of 4 tokens and its last label (use a longer text or a "
                "shorter batch.sequence_length)");
  EXPECT_EQ(file_text(path, {.vocabulary = 255, .sequence_length = 2}).error().key, "vocab_size");
  EXPECT_EQ(file_text(path + "x", {.vocabulary = 256, .sequence_length = 2}).error().message, "no such file");
}

// Counts up: sequence i of length n is i n, i n + 1 ... i n + n. Beyond `end` reading fails.
class Counting final : public TextSource {
 public:
  explicit Counting(std::int64_t end = 1 << 20) : end_(end) {}
  std::int64_t sequence_length() const override { return 3; }
  model::Result<Tokens> sequence(std::int64_t index) const override {
    if (index >= end_) return tl::unexpected(model::Error{.message = "the text has ended"});
    Tokens tokens(4);
    std::iota(tokens.begin(), tokens.end(), static_cast<std::int32_t>(3 * index));
    return tokens;
  }

 private:
  std::int64_t end_;
};

class PrefetcherTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(, PrefetcherTest, testing::Bool(),
                         [](const auto& kind) { return kind.param ? "OnAThread" : "Inline"; });

TEST_P(PrefetcherTest, GivesTheMicroBatchesOfStepAfterStep) {
  const Counting text;
  // Of a batch of 8 sequences this rank has those from 4 on, two at a time.
  const std::vector<MicroBatchPlace> places = {{.micro_batch = 0, .first_sequence = 4},
                                               {.micro_batch = 1, .first_sequence = 6}};
  Prefetcher prefetcher(text, places, {.micro_batch_size = 2, .global_batch_size = 8}, 80, GetParam());
  for (std::int64_t step = 0; step < 5; ++step) {
    const auto batches = prefetcher.next().value();
    ASSERT_EQ(batches.size(), 2U);
    for (std::size_t b = 0; b < 2; ++b) {
      EXPECT_EQ(batches[b].place.micro_batch, static_cast<std::int32_t>(b));
      ASSERT_EQ(batches[b].token_ids.size(), 6U);
      ASSERT_EQ(batches[b].labels.size(), 6U);
      for (std::size_t t = 0; t < 6; ++t) {
        const auto id = static_cast<float>(3 * (80 + 8 * step + places[b].first_sequence) + static_cast<int>(t));
        EXPECT_EQ(batches[b].token_ids[t], id);
        EXPECT_EQ(batches[b].labels[t], id + 1);
      }
    }
  }
}

TEST_P(PrefetcherTest, ReportsTheTextsErrorForTheStepThatItHits) {
  const Counting text(2);
  Prefetcher prefetcher(text, {{}}, {}, 0, GetParam());
  EXPECT_TRUE(prefetcher.next());
  EXPECT_TRUE(prefetcher.next());
  for (int i = 0; i < 2; ++i) {
    const auto ended = prefetcher.next();
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().message, "the text has ended");
  }
}

TEST_P(PrefetcherTest, EndsAtAnyMoment) {
  const auto text = text_of({.vocabulary = 1000, .sequence_length = 2000});
  for (int steps = 0; steps < 3; ++steps) {
    for (int again = 0; again < 20; ++again) {
      Prefetcher prefetcher(*text, {{}}, {.micro_batch_size = 8, .global_batch_size = 8}, 0, GetParam());
      for (int step = 0; step < steps; ++step) EXPECT_TRUE(prefetcher.next());
    }
  }
}

}  // namespace
}  // namespace plumbline::real
