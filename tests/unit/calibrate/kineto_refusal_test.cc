// The import refuses files that are no traces with a reason, and no file contents crash it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "calibrate/import/kineto/detail/events.h"
#include "calibrate/import/kineto/import.h"
#include "tests/support/gzipped.h"
#include "tests/support/inputs.h"
#include "tests/support/kineto_trace.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::calibrate {
namespace {

using testing::HasSubstr;
using tests::gzipped;

class KinetoRefusal : public testing::Test {
 protected:
  model::Result<ImportedChunk> import_text(const std::string& text) const {
    return import_kineto(folder_.write("trace.json", text), classes_, {});
  }
  std::string reason(const std::string& text) const {
    const auto imported = import_text(text);
    return imported ? "imported" : model::to_string(imported.error());
  }

  tests::TemporaryDirectory folder_;
  KernelClasses classes_ = load_kernel_classes(tests::shipped("calibrate/kernels.toml")).value();
};

// Returns a trace with entries of every kind and with misleading strings: brackets, quotes, escapes.
std::string sample() {
  return tests::KinetoTrace()
      .other(R"({"ph": "M", "name": "process_name", "pid": 0, "args": {"labels": "}],\"\\"}})")
      .annotation("attn(F)", "0", "100")
      .launch(1, "10")
      .kernel("gemm\\u0020{[", 7, "101.5", "2", 1)
      .copy("Memset (Device)", 7, "110", "2")
      .gpu_annotation("attn(F)", 7, "101", "4")
      .json();
}

TEST_F(KinetoRefusal, GzipStreamsThatBecomeFarLargerThanTracesDo) {
  constexpr std::size_t blanks = std::size_t{80} << 20;
  const std::string trace = sample() + std::string(blanks, ' ');
  EXPECT_TRUE(import_text(trace));
  EXPECT_THAT(reason(gzipped(trace)), HasSubstr("over 100 times as many"));
}

TEST_F(KinetoRefusal, MoreNamesThanTracesHave) {
  constexpr int names = (1 << 18) + 1;
  std::string trace = "[";
  for (int i = 0; i < names; ++i)
    trace += R"({"ph": "X", "cat": "user_annotation", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "name": ")" +
             std::to_string(i) + "\"},";
  trace.back() = ']';
  EXPECT_THAT(reason(trace), HasSubstr("more than 262144 different names and shapes"));
}

TEST_F(KinetoRefusal, GivesTheReason) {
  const std::string kernel = R"({"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, )";
  const auto with = [&](const std::string& rest) { return tests::KinetoTrace().other(kernel + rest + "}").json(); };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "the file is empty"},
      {" \n\t", "nothing but blanks"},
      {"[{\"ph\": \"X\"}]", "no GPU kernel among the 1 events"},
      {"ELF", "neither a JSON object nor an array: it begins with 'E'"},
      {"{}", "JSON without traceEvents"},
      {R"({"name": "a package", "list": [1, {"traceEvents": []}]})", "JSON without traceEvents"},
      {R"({"traceEvents": {"a": 1}})", "JSON without traceEvents"},
      {R"({"traceEvents": []})", "no GPU kernel among the 0 events"},
      {tests::KinetoTrace().launch(1, "1").copy("Memcpy", 7, "1", "1").json(), "no GPU kernel among the 2 events"},
      {R"({"traceEvents": [1]})", "'1' at byte 17, behind 0 events, is not expected there"},
      {R"({"traceEvents": [{},]})", "']' at byte 20, behind 1 events, is not expected there"},
      {R"({"traceEvents": []} x)", "'x' at byte 20"},
      {R"({"a": 1,})", "'}' at byte 8"},
      {"{\"a\" \x01", "byte 0x01 at byte 5"},
      {R"({"traceEvents": [{"ph" "X"}]})", "event 0 at byte 17: not JSON"},
      {with(R"("ts": 1, "dur": -2)"), "'k': its duration is negative: -2 us"},
      {with(R"("ts": 1, "dur": NaN)"), "'k': its dur is no time in microseconds: NaN"},
      {with(R"("ts": NaN, "dur": 1)"), "'k': its ts is no time in microseconds: NaN"},
      {with(R"("ts": 1)"), "'k': it has no dur"},
      {with(R"("ts": 1, "dur": 1, "args": {"stream": 99999999999})"), "its stream is out of range: 99999999999"},
      {with(R"("ts": 1, "dur": 1, "args": {"grid": [1 2]})"), "not JSON"},
  };
  for (const auto& [text, expected] : cases) EXPECT_THAT(reason(text), HasSubstr(expected)) << text;
}

TEST_F(KinetoRefusal, MissingFilesAndFolders) {
  const auto missing = import_kineto((folder_.path() / "no.json").string(), classes_, {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message, "no such file");
  EXPECT_EQ(missing.error().kind, model::ErrorKind::input);
  const auto folder = import_kineto(folder_.path().string(), classes_, {});
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().message, "is a folder, not a file");
}

// What is complete is imported, with the place of the cut; a text without a complete kernel is refused.
TEST_F(KinetoRefusal, TextCutOffAnywhere) {
  const std::string text = sample();
  ASSERT_TRUE(import_text(text)) << reason(text);
  const std::size_t last_brace = text.rfind('}'), kernel_end = text.find("}}", text.find("gemm")) + 2;
  for (std::size_t length = 0; length <= last_brace; ++length) {
    const auto imported = import_text(text.substr(0, length));
    EXPECT_EQ(imported.has_value(), length >= kernel_end) << length;
    if (imported) {
      EXPECT_THAT(imported->findings.front(), HasSubstr("the JSON ends early, at byte"));
    }
  }
  EXPECT_THAT(reason(text.substr(0, text.find("traceEvents"))), HasSubstr("behind 0 complete events"));
}

TEST_F(KinetoRefusal, GzipCutOffOrChangedAnywhere) {
  const std::string packed = gzipped(sample());
  ASSERT_TRUE(import_text(packed));
  for (std::size_t length = 0; length < packed.size(); ++length) {
    if (const auto imported = import_text(packed.substr(0, length))) {
      EXPECT_THAT(imported->findings.front(), HasSubstr("the gzip stream is cut off")) << length;
    }
  }
  EXPECT_FALSE(import_text(packed.substr(0, packed.size() / 4)));
  const std::string without_kernels = gzipped(tests::KinetoTrace().launch(1, "1").json());
  EXPECT_THAT(reason(without_kernels.substr(0, without_kernels.size() - 4)),
              HasSubstr("the gzip stream is cut off; none of its"));
  std::string changed = packed;
  changed[packed.size() - 6] = static_cast<char>(changed[packed.size() - 6] ^ 1);  // in the checksum
  EXPECT_THAT(reason(changed), HasSubstr("the gzip stream is damaged"));
}

TEST_F(KinetoRefusal, BareArrayIsRead) {
  const std::string kernel = R"({"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2})";
  EXPECT_EQ(reason("[" + kernel + "]"), "imported");
  EXPECT_EQ(reason("[" + kernel + ",\n" + kernel + "\n"), "imported");  // writers may leave the bracket out
  EXPECT_THAT(reason("[" + kernel + "] x"), HasSubstr("is not expected there"));
}

TEST(KinetoSplitter, PiecesOfAnySizeGiveTheSameEvents) {
  const std::string text = sample();
  const auto split = [&](std::size_t piece) {
    std::string events;
    EventSplitter splitter("trace", [&](EventBatch& batch) {
      events += batch.text;
      for (const std::uint64_t offset : batch.offsets) events += text.at(offset);
      return model::Result<void>();
    });
    for (std::size_t at = 0; at < text.size(); at += piece)
      if (!splitter.feed(std::string_view(text).substr(at, piece))) return std::string("refused");
    if (!splitter.finish()) return std::string("not finished");
    return events + std::to_string(splitter.events()) + splitter.properties().at("traceName");
  };
  const std::string whole = split(text.size());
  EXPECT_THAT(whole, testing::EndsWith("]{{{{{{6\"somewhere/step \\\"1\\\".json\"\n"));
  for (std::size_t piece = 1; piece < 70; ++piece) EXPECT_EQ(split(piece), whole) << piece;
}

}  // namespace
}  // namespace plumbline::calibrate
