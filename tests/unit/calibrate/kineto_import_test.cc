// Imports PyTorch-profiler traces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "calibrate/chunk/chunk.h"
#include "calibrate/import/kineto/detail/events.h"
#include "calibrate/import/kineto/import.h"
#include "tests/support/gzipped.h"
#include "tests/support/kernel_classes.h"
#include "tests/support/kineto_trace.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::calibrate {
namespace {

using testing::Contains;
using tests::gzipped;
using tests::KinetoTrace;
using tests::shipped_kernel_classes;

model::Result<ImportedChunk> import_text(const std::string& text, const ImportOptions& options = {}) {
  const tests::TemporaryDirectory folder;
  return import_kineto(folder.write("trace.json", text), shipped_kernel_classes(), options);
}

// Returns "phase layer" of each kernel in order of start.
std::vector<std::string> phases(const KinetoTrace& trace) {
  std::vector<std::string> result;
  const ImportedChunk imported = import_text(trace.json()).value();
  for (const model::Span* span : kernel_spans(imported.timeline))
    result.push_back(imported.timeline.kernels[static_cast<std::size_t>(span->kernel)].phase + " " +
                     std::to_string(span->layer));
  return result;
}

constexpr const char* gemm_kernel =
    "void deep_gemm::fp8_gemm_kernel<4096u, 7168u, (deep_gemm::GemmType)0>(float*, int)";

TEST(KinetoImport, KernelsInOrderOfStartWithTheirClassGridAndNote) {
  const auto imported = import_text(KinetoTrace()
                                        .kernel("mystery<a, b>", 7, "1740461642123470.5", "2.125")
                                        .kernel(gemm_kernel, 7, "1740461642123456.001", "10")
                                        .copy("Memcpy DtoD (Device -> Device)", 27, "1740461642123460", "1")
                                        .json());
  ASSERT_TRUE(imported) << model::to_string(imported.error());
  const auto& kernels = imported->timeline.kernels;
  const auto spans = kernel_spans(imported->timeline);
  ASSERT_EQ(kernels.size(), 3U);
  EXPECT_EQ(kernels[0].class_name, "gemm_fp8");
  EXPECT_EQ(kernels[0].queue, 7);
  EXPECT_EQ(kernels[0].grid, 112);  // 56 x 2 x 1
  EXPECT_EQ(spans[0]->layer, -1);
  EXPECT_EQ(kernels[0].note, "threads=384 registers=168 shared=213000 kernel=deep_gemm::fp8_gemm_kernel");
  EXPECT_EQ(kernels[1].class_name, "memcpy_memset");
  EXPECT_EQ(kernels[1].grid, 0);
  EXPECT_EQ(kernels[1].note, "bytes=4096 kernel=Memcpy_DtoD");
  EXPECT_EQ(kernels[2].class_name, "other");
  // A double of microseconds since 1970 could not distinguish 470.5 - 456.001 us from 14.5.
  EXPECT_EQ(spans[2]->start_ps, 14'499'000);
  EXPECT_EQ(spans[2]->duration_ps, 2'125'000);
  ASSERT_EQ(imported->unknown.size(), 1U);
  EXPECT_EQ(imported->unknown[0].name, "mystery<a, b>");
  EXPECT_EQ(imported->unknown[0].count, 1);
}

TEST(KinetoImport, CommentsNameTheSource) {
  const auto imported =
      import_text(KinetoTrace().kernel(gemm_kernel, 7, "1", "2").kernel("mystery", 7, "4", "2").json());
  ASSERT_TRUE(imported);
  EXPECT_THAT(imported->comments, Contains("device: NVIDIA H800, 132 SMs (device 0 of the trace)"));
  EXPECT_THAT(imported->comments, Contains("trace name: step \"1\".json"));
  EXPECT_THAT(imported->comments, Contains("rank: 3"));
  EXPECT_THAT(imported->comments, Contains("world size: 64"));
  EXPECT_THAT(imported->comments, Contains(testing::HasSubstr("2 read; 2 kernels (1 classified, 1 unclassified)")));
}

// A trace that plumbline wrote has its plan, which states the GPUs; a plan that is not read states none.
TEST(KinetoImport, GpusAreThoseOfThePlan) {
  std::string text = KinetoTrace().kernel(gemm_kernel, 7, "1", "2").json();
  const std::size_t begin = text.find('{') + 1;
  const std::string written = R"(model.config = 'm.json'\ncluster = {topology = 'h100-dgx', gpus = 24}\n)"
                              R"(batch = {global_batch_size = 24, micro_batch_size = 1, sequence_length = 8}\n)";
  for (const auto& [plan, gpus] : {std::pair<std::string, std::int64_t>{written, 24}, {"[", 0}}) {
    std::string own = text;
    own.insert(begin, R"("otherData": {"ranks": "of the pipeline", "plan": ")" + plan + "\"},");
    const auto imported = import_text(own);
    ASSERT_TRUE(imported) << model::to_string(imported.error());
    EXPECT_TRUE(imported->origin.of_pipeline);
    EXPECT_EQ(imported->origin.plan_gpus, gpus) << plan;
  }
}

TEST(KinetoImport, WhatIsWrittenIsReadBack) {
  const auto imported = import_text(
      KinetoTrace().annotation("attn(F)", "0", "9").launch(1, "1").kernel(gemm_kernel, 7, "5.125", "2.5", 1).json());
  ASSERT_TRUE(imported);
  const std::string csv = to_csv(imported->timeline, imported->comments);
  EXPECT_THAT(csv, testing::HasSubstr("\n0,7,gemm_fp8,F,0,0,2.5,112,section=attn(F) threads=384"));
  const auto read = parse_chunk(csv, "chunk.csv", shipped_kernel_classes());
  ASSERT_TRUE(read) << model::to_string(read.error());
  EXPECT_EQ(to_csv(*read, imported->comments), csv);
}

TEST(KinetoImport, GzipGivesTheSame) {
  const std::string text = KinetoTrace().kernel(gemm_kernel, 7, "1", "2").kernel(gemm_kernel, 7, "4", "2").json();
  const auto plain = import_text(text), packed = import_text(gzipped(text));
  // A file may be made of several gzip streams.
  const auto joined = import_text(gzipped(text.substr(0, 100)) + gzipped(text.substr(100)));
  ASSERT_TRUE(plain && packed && joined);
  EXPECT_EQ(to_csv(packed->timeline, packed->comments), to_csv(plain->timeline, plain->comments));
  EXPECT_EQ(to_csv(joined->timeline, joined->comments), to_csv(plain->timeline, plain->comments));
}

TEST(KinetoImport, InnermostKnownAnnotationAroundTheLaunchGivesThePhase) {
  const auto trace = KinetoTrace()
                         .annotation("ProfilerStep#3", "0", "1000")
                         .annotation("forward", "0", "100")
                         .annotation("mlp(W)", "40", "20")
                         .annotation("my own name", "45", "10")  // does not hide mlp(W)
                         .launch(1, "10")
                         .launch(2, "50")
                         .launch(3, "70")
                         .launch(4, "200")
                         .launch(5, "20", 2)  // without an annotation on its thread
                         .kernel(gemm_kernel, 7, "301", "1", 1)
                         .kernel(gemm_kernel, 7, "302", "1", 2)
                         .kernel(gemm_kernel, 7, "303", "1", 3)
                         .kernel(gemm_kernel, 7, "304", "1", 4)
                         .kernel(gemm_kernel, 7, "305", "1", 5)
                         .kernel(gemm_kernel, 7, "306", "1", 99);  // without a launch
  EXPECT_THAT(phases(trace), testing::ElementsAre("F -1", "W 0", "F -1", " -1", "F -1", " -1"));
}

TEST(KinetoImport, AnnotationsOfTheGpuCountWhereNoLaunchDoes) {
  const auto trace = KinetoTrace()
                         .gpu_annotation("backward", 7, "99.999", "20.002")
                         .gpu_annotation("backward", 20, "130", "20")
                         .kernel(gemm_kernel, 7, "100", "20")
                         .kernel(gemm_kernel, 20, "100", "20")
                         .kernel(gemm_kernel, 20, "140", "20");
  EXPECT_THAT(phases(trace), testing::ElementsAre("B -1", " -1", "B -1"));
}

TEST(KinetoImport, OccurrencesNumberTheLayersBackwardsWhereTheChunkGoesBackwards) {
  KinetoTrace trace;
  for (int slot = 0; slot < 3; ++slot) {
    const auto at = [&](int us) { return std::to_string(100 * slot + us); };
    trace.annotation("attn(F)", at(0), "9").annotation("attn(B)", at(10), "9");
    trace.launch(2 * slot + 1, at(1)).launch(2 * slot + 2, at(11));
    trace.kernel(gemm_kernel, 7, at(50), "1", 2 * slot + 1).kernel(gemm_kernel, 7, at(60), "1", 2 * slot + 2);
  }
  EXPECT_THAT(phases(trace), testing::ElementsAre("F 0", "B 2", "F 1", "B 1", "F 2", "B 0"));
}

TEST(KinetoImport, TakesTheDeviceWithMostKernelsOrTheOneAskedFor) {
  const std::string text = KinetoTrace()
                               .kernel(gemm_kernel, 7, "1", "2", 0, 0)
                               .kernel(gemm_kernel, 7, "4", "3", 0, 1)
                               .kernel(gemm_kernel, 7, "8", "3", 0, 1)
                               .json();
  EXPECT_EQ(import_text(text).value().device, 1);
  EXPECT_EQ(import_text(text).value().timeline.kernels.size(), 2U);
  EXPECT_EQ(import_text(text, {0, {}}).value().timeline.kernels.size(), 1U);
  const auto missing = import_text(text, {5, {}});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().key, "--device");
  EXPECT_EQ(missing.error().hint, "kernels by device: 0: 1, 1: 2");
}

TEST(KinetoImport, OldSpellingsAreRead) {
  const auto imported = import_text(
      KinetoTrace()
          .other(R"({"ph": "X", "cat": "Kernel", "name": "k", "pid": 0, "tid": "stream 9", "ts": 5, "dur": 1})")
          .other(
              R"({"ts": "6.5", "dur": "1e0", "args": {"stream": 9, "device": 0}, "cat": "kernel", "ph": "X", "name": "l"})")
          .json());
  ASSERT_TRUE(imported) << model::to_string(imported.error());
  EXPECT_EQ(imported->timeline.kernels[0].queue, 9);
  EXPECT_EQ(kernel_spans(imported->timeline)[1]->start_ps, 1'500'000);
  EXPECT_EQ(kernel_spans(imported->timeline)[1]->duration_ps, 1'000'000);
}

// Triton's kernels state their grid as text, null or floats. What the import does without may have any form.
TEST(KinetoImport, NoOptionalArgumentRefusesTheFile) {
  const auto grid_of = [](const std::string& grid) {
    const auto imported = import_text(
        KinetoTrace()
            .other(R"({"ph": "X", "cat": "kernel", "name": "k", "ts": 5, "dur": 1, "args": {"grid": )" + grid +
                   R"(, "stream": 7, "block": null, "correlation": null, "bytes": [], "registers per thread": "x"}})")
            .json());
    return imported ? imported->timeline.kernels[0].grid * 100 + imported->timeline.kernels[0].queue : -1;
  };
  for (const char* grid : {"\"grid(100,)\"", "null", "true", "{}", "[null]", "[[1], 2]", "[-1, 2]", R"(["a"])"})
    EXPECT_EQ(grid_of(grid), 7) << grid;
  EXPECT_EQ(grid_of("[3.0, 2.0, 1.0]"), 607);
  EXPECT_EQ(grid_of("[3, 2, 1]"), 607);
}

// Writers divide by durations of zero, and names of files have brackets.
TEST(KinetoImport, NumbersThatAreNoneAndBracketsInNamesRefuseNoKernels) {
  const auto imported = import_text(R"x({"traceEvents": [
{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "pid": 0, "tid": 7, "ts": 1, "dur": 0,
 "args": {"stream": 7, "bytes": 200, "memory bandwidth (GB/s)": inf}},
{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 5, "dur": 1,
 "args": {"stream": 7, "warps per SM": -Infinity, "est. achieved occupancy %": nan}}],
"traceName": "fit-profiler-[Strategy]X]-ts.pt.trace.json"})x");
  ASSERT_TRUE(imported) << model::to_string(imported.error());
  EXPECT_EQ(imported->timeline.kernels.size(), 2U);
}

TEST(KinetoImport, DamagedEvidenceRefusesNoKernels) {
  const auto imported = import_text(
      KinetoTrace()
          .other(R"({"ph": "X", "cat": null, "name": 3, "ts": 1, "dur": 1})")
          .other(R"({"ph": "X", "cat": "user_annotation", "name": "forward", "pid": 1, "tid": 1, "ts": 1, "dur": -1})")
          .other(R"({"ph": "X", "cat": "gpu_user_annotation", "name": null, "pid": 0, "tid": 7, "ts": 1})")
          .other(R"({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": {"correlation": 1}})")
          .other("{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"caf\xE9\\x\x01\", \"ts\": 1, \"dur\": 1}")
          .kernel("gemm\xE9\t\\x", 7, "10", "2", 1)
          .json());
  ASSERT_TRUE(imported) << model::to_string(imported.error());
  ASSERT_EQ(imported->timeline.kernels.size(), 1U);
  EXPECT_EQ(imported->timeline.kernels[0].class_name, "gemm_bf16");
}

TEST(KinetoImport, ShortKernelNames) {
  EXPECT_EQ(short_kernel_name("void at::native::(anonymous namespace)::k<4, f<int> >(int, g<x>)"), "at::native::k");
  EXPECT_EQ(short_kernel_name("nvjet_tst_128x256"), "nvjet_tst_128x256");
  EXPECT_EQ(short_kernel_name("a, \"b\""), "a___b_");
  EXPECT_EQ(short_kernel_name("<x>"), "<x>");
  EXPECT_EQ(short_kernel_name(std::string(500, 'k')), std::string(60, 'k'));
}

TEST(KinetoTimestamp, WholeNanoseconds) {
  EXPECT_EQ(nanoseconds("12"), 12000);
  EXPECT_EQ(nanoseconds("1740461642123456.789"), 1740461642123456789);
  EXPECT_EQ(nanoseconds("\"0.0005\""), 1);
  EXPECT_EQ(nanoseconds("0.0004"), 0);
  EXPECT_EQ(nanoseconds("-2.5"), -2500);
  EXPECT_EQ(nanoseconds("1.5e3"), 1500000);
  for (const char* wrong :
       {"", "-", "NaN", "nan", "Infinity", "1e300", "99999999999999999999", "\"x\"", "1.2.3", "null"})
    EXPECT_EQ(nanoseconds(wrong), std::nullopt) << wrong;
}

}  // namespace
}  // namespace plumbline::calibrate
