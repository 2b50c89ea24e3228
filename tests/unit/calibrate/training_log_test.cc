#include <gtest/gtest.h>

#include <string>

#include "calibrate/import/printed_files.h"

namespace plumbline::calibrate {
namespace {

using model::MemoryCount;
using sim::MeasuredQuantity;

// 512 sequences of 4096 tokens on 64 GPUs.
model::Plan plan_of_logs() {
  model::Plan plan;
  plan.batch.global_batch_size = 512;
  plan.batch.sequence_length = 4096;
  plan.cluster.gpus = 64;
  return plan;
}

model::Result<sim::Measurement> read_log(const std::string& text) {
  return parse_training_log(text, "train.log", plan_of_logs());
}

std::string refusal_of(const std::string& text) {
  const auto read = read_log(text);
  return read ? "" : to_string(read.error());
}

std::string megatron_line(int iteration, const std::string& milliseconds, int batch = 512) {
  return " [2026-01-31 12:00:00] iteration " + std::to_string(iteration) +
         "/     100 | consumed samples:        51200 | elapsed time per iteration (ms): " + milliseconds +
         " | throughput per GPU (TFLOP/s/GPU): 410.5 | learning rate: 1.2E-05 | global batch size:   " +
         std::to_string(batch) + " | lm loss: 1.1E+01 | number of skipped iterations:   0 |\n";
}

// The first iteration compiles, the sixth waits for a checkpoint. The median of 2000, 2020, 2040, 2060, 2080 and 2100
// is 2050, and ranks 1/10 and 9/10 of seven places lie at 0.7 and 6.3, the ends.
std::string megatron_log() {
  return megatron_line(1, "61000.0") + megatron_line(2, "2100.0") + megatron_line(3, "2020.0") +
         megatron_line(4, "2040.0") + megatron_line(5, "2060.0") + megatron_line(6, "9500.0") +
         megatron_line(7, "2000.0") + megatron_line(8, "2080.0");
}

TEST(TrainingLog, MegatronsIterationsWithoutWarmUpAndPauses) {
  const std::string setup =
      "using world size: 64, data-parallel size: 16, tensor-model-parallel size: 4\n"
      "  global_batch_size ............................... 512\n"
      "  seq_length ...................................... 4096\n";
  const std::string memory =
      "[Rank 0] (after 1 iterations) memory (MB) | allocated: 30000.0 | max allocated: 50000.5 | reserved: 60000.0 | "
      "max reserved: 60000.0\n"
      "[Rank 16] (after 1 iterations) memory (MB) | allocated: 30000.0 | max allocated: 50000.5 | reserved: 60000.0 | "
      "max reserved: 61000.0\n";
  const auto read = read_log(setup + memory + megatron_log());
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(read->step.given, "train.log");
  EXPECT_EQ(read->step.quantity, MeasuredQuantity::seconds);
  EXPECT_NEAR(read->step.value, 2.05, 1e-12);
  ASSERT_TRUE(read->log);
  EXPECT_EQ(read->log->format, "Megatron-LM");
  EXPECT_EQ(read->log->steps, 6);
  EXPECT_EQ(read->log->warm_up, 1);
  EXPECT_EQ(read->log->pauses, 1);
  EXPECT_EQ(read->log->damaged, 0);
  EXPECT_NEAR(read->log->low, 2.0 / 2.05, 1e-12);
  EXPECT_NEAR(read->log->high, 2.1 / 2.05, 1e-12);
  EXPECT_DOUBLE_EQ(read->log->tflops.value(), 410.5);
  EXPECT_DOUBLE_EQ(read->peak_bytes.value(), 61000.0 * 1024 * 1024);  // of the fullest rank
  EXPECT_EQ(read->counted, MemoryCount::reserved);
}

struct Form {
  const char *name, *line;
  MeasuredQuantity quantity;
  double value, tflops, peak_bytes;
  MemoryCount counted;
};

TEST(TrainingLog, EveryFormatIsReadInItsUnit) {
  constexpr double gibibyte = 1024.0 * 1024 * 1024;
  using enum MeasuredQuantity;
  for (const Form& form : {
           Form{"Megatron-Bridge",
                "ain_fp8/0 Step Time : 9.09s GPU utilization: 663.5MODEL_TFLOP/s/GPU\n"
                "[Rank 0] (after 1 iterations) memory (GB) | mem-allocated-gigabytes: 16.6 | "
                "mem-max-reserved-gigabytes: 25.4 | mem-alloc-retires: 0 |\n",
                seconds, 9.09, 663.5, 25.4e9, MemoryCount::reserved},
           Form{"NeMo",
                "Training epoch 0, iteration 4/249 | lr: 1.9e-06 | global_batch_size: 512 | global_step: 4 | "
                "reduced_train_loss: 1.3 | train_step_timing in s: 7.126 | TFLOPS_per_GPU: 512.5\n",
                seconds, 7.126, 512.5, 0, MemoryCount::device},
           Form{"NeMo",
                "\rEpoch 0: :   4%|#| 4/100 [00:40<16:00, global_step=3.000, train_step_timing in s=3.130]"
                "\rEpoch 0: :   4%|#| 4/100 [00:40<16:00, global_step=3.000, train_step_timing in s=3.130]\n",
                seconds, 3.13, 0, 0, MemoryCount::device},
           Form{"torchtitan",
                "[rank0]:[titan] 2026-01-31 19:45:01,441 - root - INFO - \x1b[31mstep: 10  \x1b[32mloss:  4.0277  "
                "\x1b[38;2;180;60;0mgrad_norm:  1.4604  \x1b[36mmemory: 40.50GiB(51.20%)  \x1b[34mtps: 7,800  "
                "\x1b[36mtflops: 1,450.25  \x1b[35mmfu: 45.00%\x1b[39m\n"
                "[rank0]:[titan] 2026-01-31 19:45:02,441 - root - INFO - validate step: 10  loss:  4.0  memory: "
                "70.50GiB(51.20%)  tps: 9,900\n",
                tokens_per_s_per_gpu, 7800, 1450.25, 70.5 * gibibyte, MemoryCount::reserved},
           Form{"DeepSpeed",
                "[2026-01-31 15:27:02,646] [INFO] [timer.py:260:stop] epoch=0/micro_step=199/global_step=199, "
                "RunningAvgSamplesPerSec=58.730622229657506, CurrSamplesPerSec=61.25, MemAllocated=6.01GB, "
                "MaxMemAllocated=19.5GB\n",
                samples_per_s, 61.25, 0, 19.5 * gibibyte, MemoryCount::allocated},
           Form{"DeepSpeed", "steps: 10 loss: 7.2093 iter time (s): 8.250 samples/sec: 62.061\n", seconds, 8.25, 0, 0,
                MemoryCount::device},
       }) {
    ASSERT_TRUE(is_training_log(form.line)) << form.line;
    const auto read = read_log(form.line);
    ASSERT_TRUE(read) << form.line << to_string(read.error());
    EXPECT_EQ(read->log->format, form.name);
    EXPECT_EQ(read->log->steps, 1) << form.line;
    EXPECT_EQ(read->step.quantity, form.quantity) << form.line;
    EXPECT_NEAR(read->step.value, form.value, 1e-9 * form.value);
    EXPECT_DOUBLE_EQ(read->log->tflops.value_or(0), form.tflops) << form.line;
    EXPECT_DOUBLE_EQ(read->peak_bytes.value_or(0), form.peak_bytes) << form.line;
    EXPECT_EQ(read->counted, form.counted) << form.line;
  }
  EXPECT_FALSE(is_training_log("model = \"llama-3-8b\"\n[cluster]\ngpus = 8\n"));
}

// Bridge prints its step times with two digits next to Megatron's lines, DeepSpeed its own.
TEST(TrainingLog, LinesOfSeveralProgramsAreOneLog) {
  const std::string bridge = "Step Time : 2.05s GPU utilization: 512.5MODEL_TFLOP/s/GPU\n";
  const auto first = read_log(bridge + megatron_log());
  EXPECT_EQ(first->log->format, "Megatron-Bridge");
  EXPECT_NEAR(first->step.value, 2.05, 1e-12);
  const std::string deepspeed = "epoch=0/micro_step=1/global_step=1, CurrSamplesPerSec=61.25, MemAllocated=6.01GB\n";
  EXPECT_EQ(read_log(deepspeed + megatron_log())->log->format, "Megatron-DeepSpeed");
}

TEST(TrainingLog, LaunchersPrefixesChangeNothing) {
  for (const std::string prefix :
       {"[1,0]<stdout>:", " 3: ", "[default3]:", "worker-1: ", "(RayWorker pid=7, ip=10.0.0.1) ",
        "Thu May  7 10:39:20 2020[1,1]<stdout>:", "trainer-1  | "}) {
    std::string decorated = prefix;
    for (const char c : megatron_log()) decorated += c == '\n' ? "\n" + prefix : std::string(1, c);
    const auto read = read_log(decorated);
    ASSERT_TRUE(read) << prefix << to_string(read.error());
    EXPECT_NEAR(read->step.value, 2.05, 1e-12) << prefix;
    EXPECT_NE(refusal_of(prefix + "  seq_length ...... 8192\n" + decorated).find("8192 in the log"), std::string::npos);
  }
}

// A line with another one inside, one that ends in its number, and one without a number.
TEST(TrainingLog, DamagedLinesAreCountedAndLeftOut) {
  const std::string whole = megatron_line(9, "2000.0"), interleaved = whole.substr(0, 130) + megatron_line(10, "2.0");
  const std::string cut = whole.substr(0, whole.find("2000.0") + 2);
  const auto read = read_log(interleaved + megatron_line(11, "nan") + megatron_log() + cut);
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(read->log->damaged, 3);
  EXPECT_EQ(read->log->steps, 6);
  EXPECT_NEAR(read->step.value, 2.05, 1e-12);
  EXPECT_NE(refusal_of(cut).find("train.log: no line of a step is whole"), std::string::npos);
}

// Ranks that all print, and a run that is restarted from a checkpoint, repeat steps.
TEST(TrainingLog, AStepCountsOnce) { EXPECT_EQ(read_log(megatron_log() + megatron_log())->log->steps, 6); }

TEST(TrainingLog, LongWarmUpIsNoPause) {
  std::string log;
  for (int i = 0; i < 20; ++i) log += megatron_line(i, i < 9 ? "3000.0" : "2000.0");
  const auto read = read_log(log);
  EXPECT_NEAR(read->step.value, 2.0, 1e-12);
  EXPECT_EQ(read->log->warm_up, 9);
  EXPECT_EQ(read->log->pauses, 0);
}

TEST(TrainingLog, ALogOfAnotherPlanIsRefusedWithBothNumbers) {
  EXPECT_EQ(refusal_of(megatron_line(1, "2000.0", 256)),
            "train.log: batch.global_batch_size: 256 in the log, 512 in the plan (hold it against the plan that ran: "
            "--set batch.global_batch_size=256)");
  // Of a batch that ramps up, steps at that of the plan count.
  const auto ramped = read_log(megatron_line(1, "1000.0", 256) + megatron_line(2, "2000.0"));
  EXPECT_EQ(ramped->log->steps, 1);
  EXPECT_EQ(ramped->log->warm_up, 1);
  for (const auto& [setup, message] :
       {std::pair{"using world size: 8, data-parallel size: 8\n", "train.log:1: cluster.gpus: 8 in the log, 64 in"},
        std::pair{"  train_batch_size ............. 32\n", "batch.global_batch_size: 32 in the log, 512 in the plan"},
        std::pair{"[titan] 2026-01-31 19:44:58,838 - root - INFO - Trainer is initialized with local batch size 8, "
                  "global batch size 512, gradient accumulation steps 1, sequence length 8192, total steps 10\n",
                  "batch.sequence_length: 8192 in the log, 4096 in the plan"}})
    EXPECT_NE(refusal_of(setup + megatron_log()).find(message), std::string::npos) << setup;
}

TEST(TrainingLog, WithoutAStepTheFormatsAreNamed) {
  EXPECT_EQ(refusal_of("Traceback (most recent call last):\n"),
            "train.log: no line of a step (a training log of Megatron-LM, Megatron-Bridge, NeMo, torchtitan, "
            "DeepSpeed, with what it prints of each step)");
}

// 32 requests in flight, of 1,000 and 200 tokens.
model::Result<sim::MeasuredValue> read_benchmark(const std::string& text, std::int64_t concurrency = 32) {
  model::Plan plan;
  plan.inference.input_tokens = 1000;
  plan.inference.output_tokens = 200;
  plan.inference.concurrency = concurrency;
  return parse_serving_benchmark(text, "bench.json", plan);
}

TEST(ServingBenchmark, PrintedOrKept) {
  const std::string printed =
      "Max request concurrency:                 32\nSuccessful requests:                     64\n"
      "Total input tokens:                      64000\nTotal generated tokens:                  12800\n"
      "Total generated tokens (retokenized):    12791\nMean TPOT (ms):                          23.50\n";
  const auto read = read_benchmark(printed);
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(read->quantity, MeasuredQuantity::seconds);
  EXPECT_DOUBLE_EQ(read->value, 0.0235);
  const std::string kept = R"({"max_concurrency": 32, "completed": 64, "total_input_tokens": 64000,
                               "total_output_tokens": 12800, "mean_ttft_ms": 100.0, "mean_tpot_ms": 23.5})";
  EXPECT_DOUBLE_EQ(read_benchmark(kept)->value, 0.0235);
}

TEST(ServingBenchmark, OtherLoadsAreRefused) {
  const std::string kept = R"({"max_concurrency": 32, "completed": 64, "total_input_tokens": 128000,
                               "total_output_tokens": 12800, "mean_tpot_ms": 23.5})";
  const model::Error other = read_benchmark(kept, 0).error();
  EXPECT_EQ(other.message,
            "measured another load than the plan's: 2000 for inference.input_tokens = 1000, 32 for "
            "inference.concurrency = 0");
  EXPECT_EQ(other.hint, "--set inference.input_tokens=2000 --set inference.concurrency=32");
  EXPECT_EQ(read_benchmark(kept + kept).error().message, "holds several results");
  EXPECT_EQ(read_benchmark("tokens: 3").error().message, "states no mean time per output token");
}

}  // namespace
}  // namespace plumbline::calibrate
