#include "real/executor/training/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "model/base/random.h"
#include "model/base/text_file.h"

namespace plumbline::real {
namespace {

using model::Random;
using Tokens = std::vector<std::int32_t>;

constexpr std::int64_t largest_vocabulary = std::int64_t{1} << 24;  // floats skip whole numbers above it
constexpr std::int64_t byte_values = 256;
constexpr std::int64_t largest_step = std::int64_t{1} << 20;  // between windows; keeps step * index within 64 bits

// Returns a generator seeded by both numbers; adjacent seeds or indices give independent sequences.
Random random_of(std::uint64_t seed, std::int64_t index) {
  return Random(Random(seed).next() ^ static_cast<std::uint64_t>(index));
}

model::Result<void> check(const TextOptions& options) {
  if (options.sequence_length < 1)
    return tl::unexpected(model::Error{.message = "a sequence needs at least one token", .key = "sequence_length"});
  if (options.vocabulary < 2 || options.vocabulary > largest_vocabulary)
    return tl::unexpected(model::Error{
        .message = fmt::format("a vocabulary of {} tokens cannot be trained on; 2 to 2^24 can", options.vocabulary),
        .key = "vocab_size"});
  return {};
}

class SyntheticText final : public TextSource {
 public:
  explicit SyntheticText(const TextOptions& options)
      : options_(options), scale_(std::log(static_cast<double>(options.vocabulary + 1))) {}

  std::int64_t sequence_length() const override { return options_.sequence_length; }

  model::Result<Tokens> sequence(std::int64_t index) const override {
    Random random = random_of(options_.seed, index);
    Tokens tokens;
    tokens.reserve(static_cast<std::size_t>(options_.sequence_length + 1));
    tokens.push_back(any_token(random));
    while (std::ssize(tokens) <= options_.sequence_length) tokens.push_back(next(tokens.back(), random));
    return tokens;
  }

 private:
  // Draws from a log-uniform distribution: id i has probability ln((i + 2) / (i + 1)) / ln(vocabulary + 1).
  std::int32_t any_token(Random& random) const {
    const auto id = static_cast<std::int64_t>(std::exp(random.uniform() * scale_)) - 1;
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(id, 0, options_.vocabulary - 1));
  }

  std::int32_t next(std::int32_t token, Random& random) const {
    const std::uint64_t draw = random.next() >> 61;  // 0..7
    if (draw == 7) return any_token(random);
    // The successors of a token do not depend on its position. Negative indices are not used by sequences.
    Random successors = random_of(options_.seed, -1 - std::int64_t{token});
    const int which = draw < 4 ? 0 : draw < 6 ? 1 : 2;
    std::int32_t successor = any_token(successors);
    for (int i = 0; i < which; ++i) successor = any_token(successors);
    return successor;
  }

  TextOptions options_;
  double scale_;
};

class FileText final : public TextSource {
 public:
  FileText(std::string text, const TextOptions& options)
      : text_(std::move(text)),
        options_(options),
        windows_((static_cast<std::int64_t>(text_.size()) - 1) / options.sequence_length) {}

  std::int64_t sequence_length() const override { return options_.sequence_length; }

  model::Result<Tokens> sequence(std::int64_t index) const override {
    const std::int64_t first = window(index) * options_.sequence_length;
    Tokens tokens(static_cast<std::size_t>(options_.sequence_length + 1));
    std::transform(text_.begin() + first, text_.begin() + first + std::ssize(tokens), tokens.begin(),
                   [](char byte) { return static_cast<std::int32_t>(static_cast<unsigned char>(byte)); });
    return tokens;
  }

 private:
  // Visits every window once per pass: index -> (step * index + start) mod windows, with step and windows coprime.
  std::int64_t window(std::int64_t index) const {
    Random random = random_of(options_.seed, index / windows_);
    const auto draw = [&](std::int64_t end) {
      return static_cast<std::int64_t>(random.next() % static_cast<std::uint64_t>(end));
    };
    const std::int64_t start = draw(windows_);
    std::int64_t step = 1 + draw(std::min(windows_, largest_step));
    while (std::gcd(step, windows_) != 1) ++step;
    return (step * (index % windows_) + start) % windows_;
  }

  std::string text_;
  TextOptions options_;
  std::int64_t windows_;
};

}  // namespace

model::Result<std::unique_ptr<TextSource>> synthetic_text(const TextOptions& options) {
  TRY(check(options));
  return std::make_unique<SyntheticText>(options);
}

model::Result<std::unique_ptr<TextSource>> file_text(const std::string& path, const TextOptions& options) {
  TRY(check(options));
  if (options.vocabulary < byte_values)
    return tl::unexpected(model::Error{
        .message = fmt::format("a vocabulary of {} tokens cannot name all 256 bytes of a text", options.vocabulary),
        .file = path,
        .key = "vocab_size",
        .hint = "use a model with a larger vocabulary, or synthetic text"});
  auto text = TRY(model::read_file(path));
  if (static_cast<std::int64_t>(text.size()) < options.sequence_length + 1)
    return tl::unexpected(model::Error{
        .message = fmt::format("{} bytes of text are less than one sequence of {} tokens and its last label",
                               text.size(), options.sequence_length),
        .file = path,
        .hint = "use a longer text or a shorter batch.sequence_length"});
  return std::make_unique<FileText>(std::move(text), options);
}

}  // namespace plumbline::real
