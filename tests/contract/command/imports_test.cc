#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "calibrate/fit/profile_fit.h"
#include "calibrate/import/printed_files.h"
#include "calibrate/measurement/measurement.h"
#include "cli/measure/detail/measure.h"
#include "model/base/text_file.h"
#include "real/measure/kernel_case/kernel_case.h"
#include "tests/support/command.h"
#include "tests/support/costs.h"
#include "tests/support/inputs.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::tests {
namespace {

using real::KernelCase;
using testing::HasSubstr;

// Files of other programs that the command imports.

// The form of Megatron-LM's tests/functional_tests/test_cases/*/model_config.yaml: switches are true, several words of
// an argument are in brackets, and layers of experts are a list that is no such bracket.
constexpr const char* functional_test =
    "ENV_VARS:\n"
    "  NCCL_ALGO: Ring\n"
    "MODEL_ARGS:\n"
    "  --num-layers: 14 # original 61 layers\n"
    "  --hidden-size: 7168\n"
    "  --ffn-hidden-size: 18432\n"
    "  --num-attention-heads: 128\n"
    "  --vocab-size: 129280\n"
    "  --tensor-model-parallel-size: 2\n"
    "  --sequence-parallel: true\n"
    "  --pipeline-model-parallel-size: 4\n"
    "  --pipeline-model-parallel-layout: Et*2|(tt|)*5t|tL\n"
    "  --expert-model-parallel-size: 16\n"
    "  --expert-tensor-parallel-size: 1\n"
    "  --num-experts: 64\n"
    "  --moe-layer-freq: ([0]*3+[1]*11)\n"
    "  --moe-ffn-hidden-size: 2048\n"
    "  --moe-router-topk: 8\n"
    "  --multi-latent-attention: true\n"
    "  --q-lora-rank: 1536\n"
    "  --kv-lora-rank: 512\n"
    "  --qk-head-dim: 128\n"
    "  --qk-pos-emb-head-dim: 64\n"
    "  --v-head-dim: 128\n"
    "  --normalization: RMSNorm\n"
    "  --swiglu: true\n"
    "  --disable-bias-linear: true\n"
    "  --position-embedding-type: rope\n"
    "  --untie-embeddings-and-output-weights: true\n"
    "  --seq-length: 4096\n"
    "  --micro-batch-size: 1\n"
    "  --global-batch-size: 512\n"
    "  --bf16: true\n"
    "  --overlap-grad-reduce: false\n"
    "  --recompute-granularity: selective\n"
    "  --recompute-modules: \"[layernorm moe_act]\"\n"
    "  --cuda-graph-impl: transformer_engine\n"
    "  --cuda-graph-modules: \"[attn moe_router]\"\n"
    "  --load: ${CHECKPOINT_LOAD_PATH}\n"
    "  --use-sharp: true\n"
    "METRICS:\n"
    "  - \"iteration-time\"\n";

TEST(Imports, AFunctionalTestOfMegatronIsItsScript) {
  const TemporaryDirectory folder;
  const std::string file = folder.write("model_config.yaml", functional_test).string();
  const std::string out = (folder.path() / "plan.toml").string();
  const CommandResult result = plumbline("import megatron " + file + " --gpus 128 -o " + out);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr(file + ": the arguments are taken for those of pretrain_gpt.py"));
  EXPECT_THAT(result.errors, HasSubstr(file + ":40: --use-sharp: not modelled"));
  const std::string plan = model::read_text_file(out).value();
  for (const char* line : {"gpus = 128", "tensor = 2", "sequence = true", "pipeline = 4", "expert = 16",
                           "expert_tensor = 1", "layers_per_stage = [2, 2, 2, 2, 2, 2, 1, 1]", "virtual_stages = 2",
                           "global_batch_size = 512", "gradient_reduce = false", "policy = \"selective\"",
                           "operators = [\"rmsnorm\", \"swiglu\"]", "graphs = [\"attn\", \"moe_router\"]"})
    EXPECT_THAT(plan, HasSubstr(line));
}

TEST(Imports, AnotherYamlIsNoFunctionalTest) {
  const TemporaryDirectory folder;
  const std::string file = folder.write("other.yaml", "a: 1\n").string();
  const CommandResult result = plumbline("import megatron " + file + " -o " + (folder.path() / "plan.toml").string());
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, HasSubstr("has no MODEL_ARGS"));
}

// Calibration reads what `measure` writes: every case of the built-in sweep, every variant of it, and the records that
// the repository keeps.

class MadeUpMachine final : public real::CaseMachine {
 public:
  std::string device() const override { return "NVIDIA H200"; }
  int sms() const override { return 132; }
  std::string environment() const override { return R"({"driver":"580.95","l2_bytes":50})"; }
  bool lost() const override { return false; }
  model::Result<std::unique_ptr<real::Runner>> prepare(const KernelCase& /*what*/, int /*samples*/) override {
    return tl::unexpected(model::Error{});
  }
};

const MadeUpMachine machine;
const std::string date = "2026-11-21T10:00:00Z";

// Times are those at half of the H200's datasheet rates, so that no rate exceeds them.
real::Series measured(const real::Subject& subject) {
  const double peak = subject.format == "bf16" ? 989e12 : 1979e12;
  const double time = 2 * std::max({1e-6, subject.flops / peak, subject.bytes / 4.8e12});
  return {subject, {time, 1.05 * time, 1.1 * time}, subject.communication_sms > 0 ? 250.5e9 : 0};
}

real::Findings findings() {
  return {real::CheckOutcome{1e-3, 1e-2, true, "a note"},
          {1755, 3201, 612.5, 54.0, 0.97, "none"},
          R"({"tile":21,"library":"cuBLASLt"})",
          "commas, \"quotes\" and a\nline break"};
}

std::string line_of(const KernelCase& what, const real::Subject& subject) {
  return cli::measurement_line(machine, what, measured(subject), findings(), date);
}

TEST(CaseRecords, AreReadByCalibration) {
  std::string text = cli::environment_line(machine, date);
  std::size_t written = 0;
  const std::vector<KernelCase> sweep = real::read_case_file(shipped("real/cuda/cases/sweep.cases")).value();
  for (KernelCase what : sweep) {
    if (what.target_sms == KernelCase::others) what.target_sms = machine.sms() - what.ctas;
    for (const real::Subject& subject : subjects_of(what)) {
      text += line_of(what, subject);
      ++written;
    }
    text += cli::failure_line(machine, what, "a reason", date);
  }
  const auto devices = topologies::load_devices(shipped("topologies/devices")).value();
  const auto read = calibrate::parse_measurements(text, "records.jsonl", devices);
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_GT(written, sweep.size());
  EXPECT_EQ(read->values.size(), written);
  EXPECT_EQ(read->failures.size(), sweep.size());
  EXPECT_EQ(read->environments.size(), 1u);
  EXPECT_TRUE(read->notes.empty());
}

TEST(CaseRecords, KeepTheirValues) {
  const KernelCase what =
      real::parse_kernel_case("gemm name=a phase=W format=bf16 m=256 n=512 k=1024 groups=2").value();
  const real::Subject cold = subjects_of(what).at(1);
  const auto read = calibrate::parse_measurements(line_of(what, cold), "records.jsonl", {});
  ASSERT_TRUE(read) << to_string(read.error());
  const calibrate::Measurement& m = read->values.at(0);
  EXPECT_EQ(m.shape, (calibrate::Shape{{"m", 256}, {"n", 512}, {"k", 1024}, {"groups", 2}}));
  EXPECT_EQ(m.flops, 2.0 * 256 * 512 * 1024 * 2);
  EXPECT_EQ(m.case_line, to_line(what));
  EXPECT_EQ(m.cache, "cold");
  EXPECT_EQ(m.note, "commas, \"quotes\" and a\nline break");
  EXPECT_EQ(m.algorithm, R"({"tile":21,"library":"cuBLASLt"})");
  EXPECT_NEAR(m.time.p50, measured(cold).seconds[1], 1e-18);
}

// The keys and their order are compared with those of the records that the repository keeps.
TEST(CaseRecords, HaveTheFormOfThoseThatAreKept) {
  const auto text = [](const std::string& line) {
    const KernelCase what = real::parse_kernel_case(line).value();
    const std::vector<real::Subject> subjects = subjects_of(what);
    std::string keys;
    const auto record = nlohmann::ordered_json::parse(line_of(what, subjects.back()));
    for (const auto& [key, value] : record.items()) keys += key + ' ';
    return keys;
  };
  EXPECT_EQ(text("gemm name=a phase=F format=bf16 m=8 n=8 k=8"),
            "schema kind source device date op name phase format case shape sms communication_ctas target_sms cache "
            "variant samples time_us flops bytes tflops gbps check clock algorithm note ");
  EXPECT_EQ(text("partition kernel=rmsnorm ctas=20 rows=64 columns=512"),
            "schema kind source device date op case shape sms communication_ctas target_sms copy_to copy_gbps cache "
            "variant samples time_us bytes gbps check clock algorithm note ");
  EXPECT_EQ(text("launch"),
            "schema kind source device date op case sms communication_ctas target_sms variant samples time_us check "
            "clock algorithm note ");
  const KernelCase held = real::parse_kernel_case("partition kernel=rmsnorm ctas=20 rows=64 columns=512").value();
  real::Series series = measured(subjects_of(held).back());
  series.copy_rate = 0;  // the copy only held its SMs
  const auto record = nlohmann::json::parse(cli::measurement_line(machine, held, series, {}, date));
  EXPECT_EQ(record["communication_ctas"], 20);
  for (const char* key : {"copy_gbps", "copy_to", "check", "clock", "algorithm", "note"})
    EXPECT_FALSE(record.contains(key)) << key;
}

TEST(KeptRecords, AreReadAndNameClockAndEnvironment) {
  const auto devices = topologies::load_devices(shipped("topologies/devices")).value();
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(shipped("calibrate/measured"))) {
    if (entry.is_directory()) continue;  // executed steps, not records
    const auto read = calibrate::load_measurements(entry.path().string(), devices);
    ASSERT_TRUE(read) << to_string(read.error());
    EXPECT_FALSE(read->values.empty()) << entry.path();
    EXPECT_FALSE(read->environments.empty()) << entry.path();
    for (const calibrate::Measurement& m : read->values) EXPECT_FALSE(m.variant.empty()) << entry.path() << m.op;
    ++files;
  }
  EXPECT_GT(files, 0U);
}

struct Fitted {
  calibrate::ProfileFit fit;
  bool of_training = true;  // GEMMs of training are among the records; those of decoding determine no constant
};

// Fits a profile to files of one device, of its family's datasheet, and returns it.
Fitted fitted(const std::vector<std::string>& paths) {
  const auto devices = topologies::load_devices(shipped("topologies/devices")).value();
  std::vector<calibrate::Measurements> files;
  for (const std::string& path : paths) {
    auto read = path.ends_with(".txt") ? calibrate::parse_nccl_tests(model::read_text_file(path).value(), path)
                                       : calibrate::load_measurements(path, devices);
    EXPECT_TRUE(read) << path;
    if (read) files.push_back(*read);
  }
  const auto repeats = calibrate::check_repeats(files);
  EXPECT_TRUE(repeats) << to_string(repeats.error());
  const auto records = calibrate::fit_records(files);
  EXPECT_TRUE(records) << to_string(records.error());
  const bool host = records && records->machine == calibrate::MachineKind::host;
  return {calibrate::fit_profile(*records, profile(host ? "host-datasheet" : "generic-datasheet"), "a test"),
          records->gemms.size() > records->small_gemms.size()};
}

void expect_usable(const Fitted& made, const std::string& what) {
  EXPECT_TRUE(made.fit.parameters.size() > 10 || !made.of_training) << what;
  for (const model::Parameter& constant : made.fit.parameters)
    EXPECT_TRUE(std::isfinite(constant.value) && constant.value >= 0) << what << ": " << constant.name;
}

TEST(KeptRecords, EachFileBecomesAProfile) {
  int profiles = 0;
  for (const auto& entry : std::filesystem::directory_iterator(shipped("calibrate/measured")))
    if (!entry.is_directory()) {
      const Fitted made = fitted({entry.path().string()});
      expect_usable(made, entry.path().string());
      profiles += made.of_training ? 1 : 0;
    }
  EXPECT_GE(profiles, 6);
}

TEST(KeptRecords, FilesOfOneGpuBecomeAProfileInAnyMix) {
  const std::string sweep = shipped("calibrate/measured/nvidia-h100-80gb-hbm3-2026-11-22.jsonl");
  const std::string plan = shipped("calibrate/measured/nvidia-h100-80gb-hbm3-2026-11-22-h100-chunk.jsonl");
  const std::string bf16 = shipped("calibrate/measured/nvidia-h100-80gb-hbm3-2026-11-22-h100-chunk-bf16.jsonl");
  const std::string nccl = shipped("tests/golden/inputs/nccl-tests.txt");
  for (const std::vector<std::string>& mix :
       std::vector<std::vector<std::string>>{{sweep, plan}, {sweep, nccl}, {plan, bf16}, {sweep, plan, bf16, nccl}})
    expect_usable(fitted(mix), std::to_string(mix.size()));
}

}  // namespace
}  // namespace plumbline::tests
