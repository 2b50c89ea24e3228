#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "model/architecture/load_architecture.h"
#include "tests/support/imports.h"
#include "tests/support/inputs.h"

namespace plumbline::model::configurations {
namespace {

using testing::HasSubstr;

Result<ImportedConfiguration> import_served(const std::string& format, const std::string& text) {
  const auto load = [](const std::string& name) {
    return load_architecture(tests::shipped("examples/models/" + name + ".json"));
  };
  return import_configuration(tests::format_of(format), text, "serve.sh", {{}, "", "plan.json", load});
}
ImportedConfiguration served_by(const std::string& format, const std::string& text) {
  return tests::read(import_served(format, text));
}
std::string refused_by(const std::string& format, const std::string& text) {
  const auto result = import_served(format, text);
  return result ? "" : to_string(result.error());
}

Plan of_vllm(const std::string& command) { return served_by("vllm", command + "\n").plan; }
Plan of_sglang(const std::string& options) {
  return served_by("sglang", "python3 -m sglang.launch_server " + options + "\n").plan;
}

TEST(Engines, ExpertsOfVllmLieOnAllRanksOfAStage) {
  const Plan plan = of_vllm(
      "MODEL=deepseek-ai/DeepSeek-V3\nvllm serve $MODEL -tp 2 -dp 8 --enable-expert-parallel --max-num-seqs 64 \\\n"
      "  --speculative-config '{\"method\": \"mtp\", \"num_speculative_tokens\": 1}' --kv-cache-dtype fp8_e4m3 \\\n"
      "  --max-num-batched-tokens=4096 --all2all-backend deepep_low_latency --gpu-memory-utilization 0.85");
  EXPECT_EQ(plan.model.config, "deepseek-v3");
  EXPECT_EQ(plan.cluster.gpus, 16);
  EXPECT_EQ(plan.parallelism.tensor, 2);
  EXPECT_EQ(plan.parallelism.expert, 16);
  EXPECT_EQ(plan.inference.attention_data, 8);
  EXPECT_EQ(plan.inference.concurrency, 512);  // 64 of each group
  EXPECT_EQ(plan.inference.speculative_tokens, 1);
  EXPECT_EQ(plan.inference.draft, "mtp");
  EXPECT_EQ(plan.inference.kv_cache, "fp8");
  EXPECT_EQ(plan.inference.weights, Precision::fp8);
  EXPECT_EQ(plan.inference.chunked_prefill_tokens, 4096);
  EXPECT_EQ(plan.inference.dispatch, "deepep-2025-06");
  EXPECT_EQ(plan.inference.memory_share, 0.85);
  EXPECT_EQ(plan.inference.engine, "vllm");
}

// A dense model has no experts between its groups: they are replicas.
TEST(Engines, GroupsOfDenseModelsAreReplicas) {
  const Plan vllm = of_vllm("vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2 --data-parallel-size 4");
  EXPECT_EQ(vllm.cluster.gpus, 8);
  EXPECT_EQ(vllm.inference.attention_data, 1);
  const Plan sglang = of_sglang("--model-path Qwen/Qwen3-8B --tp 2 --dp-size 4 --disable-radix-cache");
  EXPECT_EQ(sglang.cluster.gpus, 8);
  EXPECT_EQ(sglang.parallelism.tensor, 2);
}

// Tensor ranks of SGLang are all ranks of a stage, which data-parallel attention divides.
TEST(Engines, GroupsOfSglangDivideItsTensorRanks) {
  const Plan plan = of_sglang(
      "--model deepseek-ai/DeepSeek-R1 --tp 16 --dp 8 --enable-dp-attention --moe-a2a-backend deepep "
      "--speculative-algorithm EAGLE --max-running-requests 256 --enable-two-batch-overlap");
  EXPECT_EQ(plan.model.config, "deepseek-v3");
  EXPECT_EQ(plan.cluster.gpus, 16);
  EXPECT_EQ(plan.parallelism.tensor, 2);
  EXPECT_EQ(plan.parallelism.expert, 16);
  EXPECT_EQ(plan.inference.attention_data, 8);
  EXPECT_EQ(plan.inference.concurrency, 256);
  EXPECT_EQ(plan.inference.draft, "mtp");
  EXPECT_EQ(plan.inference.speculative_tokens, 3);
  EXPECT_TRUE(plan.inference.two_micro_batches);
  EXPECT_THAT(
      refused_by("sglang", "sglang serve --model-path Qwen/Qwen3-30B-A3B --tp 4 --dp 3 --enable-dp-attention\n"),
      HasSubstr("does not divide 4 tensor ranks"));
}

// TensorRT-LLM gives each tensor rank requests of its own, and reads further options that the script writes.
TEST(Engines, OptionsThatAScriptWrites) {
  const std::string script =
      "TP=8\nFILE=more.yml\ncat > $FILE << 'EOF'\nenable_attention_dp: true\nkv_cache_config:\n  dtype: fp8\n"
      "max_num_tokens: 4096\nspeculative_config:\n  decoding_type: MTP\n  num_nextn_predict_layers: $LAYERS\nEOF\n"
      "LAYERS=2\ntrtllm-serve nvidia/DeepSeek-R1-FP4 --tp_size $TP --ep_size ${TP} --max_num_tokens 8192 "
      "--max_batch_size 64 --extra_llm_api_options $FILE\n";
  const auto read = served_by("tensorrt-llm", script);
  EXPECT_EQ(read.plan.inference.engine, "tensorrt-llm");
  EXPECT_EQ(read.plan.inference.attention_data, 8);
  EXPECT_EQ(read.plan.parallelism.tensor, 1);
  EXPECT_EQ(read.plan.parallelism.expert, 8);
  EXPECT_EQ(read.plan.inference.concurrency, 512);
  EXPECT_EQ(read.plan.inference.chunked_prefill_tokens, 4096) << "the file's holds";
  EXPECT_EQ(read.plan.inference.speculative_tokens, 2);
  EXPECT_EQ(read.plan.inference.kv_cache, "fp8");
  EXPECT_EQ(read.plan.inference.weights, Precision::nvfp4);
  const auto without = served_by("tensorrt-llm", "trtllm-serve serve Qwen/Qwen3-8B --config more.yml\n");
  EXPECT_TRUE(std::ranges::any_of(without.notes, [](const Note& note) {
    return contains(note.text, "the file is not next to the script, nor written by it");
  }));
}

// A benchmark in the same script states the requests.
TEST(Engines, BenchmarksStateRequests) {
  const std::string server = "vllm serve Qwen/Qwen3-8B > log.txt 2>&1 &\nPID=$!\n";
  const auto of = [&](const std::string& benchmark) { return served_by("vllm", server + benchmark + "\n").plan; };
  const std::string lengths = " --random-input-len 2048 --random-output-len 512 --max-concurrency 32 --num-prompts 320";
  const Plan fixed = of("until curl -s localhost:8000/health; do sleep 5; done\nvllm bench serve" + lengths);
  EXPECT_EQ(fixed.inference.input_tokens, 2048);
  EXPECT_EQ(fixed.inference.output_tokens, 512);
  EXPECT_EQ(fixed.inference.concurrency, 32);
  EXPECT_EQ(fixed.inference.arrivals, "waves");
  EXPECT_EQ(fixed.inference.requests, 320);
  const Plan drawn = of("python benchmark_serving.py --random-range-ratio 0.8" + lengths);
  EXPECT_EQ(drawn.inference.arrivals, "steady");
  EXPECT_FALSE(drawn.inference.requests);
  const Plan below = of("python3 -m sglang.bench_serving --random-range-ratio 0.5" + lengths);
  EXPECT_EQ(below.inference.input_tokens, 1536);
  EXPECT_EQ(below.inference.arrivals, "steady");
  EXPECT_EQ(of("python3 -m sglang.bench_serving --random-range-ratio 1" + lengths).inference.arrivals, "waves");
}

TEST(Engines, ModelsAndWeightsAreOfNamesMethodsAndTypes) {
  const auto model = [](const std::string& name) { return of_vllm("vllm serve " + name).model.config; };
  EXPECT_EQ(model("zai-org/GLM-4.6-FP8"), "glm-4.5");
  EXPECT_EQ(model("deepseek-ai/DeepSeek-R1-0528"), "deepseek-v3");
  EXPECT_EQ(model("deepseek-ai/DeepSeek-R1-0528-Qwen3-8B"), "qwen3-8b");
  EXPECT_EQ(model("deepseek-ai/DeepSeek-R1-Distill-Llama-70B"), "llama-3-70b");
  EXPECT_THAT(refused_by("vllm", "vllm serve zai-org/GLM-4.6V-Flash\n"), HasSubstr("no shipped model"));
  const auto weights = [](const std::string& options) { return of_vllm("vllm serve " + options).inference.weights; };
  EXPECT_EQ(weights("meta-llama/Llama-3.1-70B-Instruct"), Precision::bf16);
  EXPECT_EQ(weights("meta-llama/Llama-3.1-70B-Instruct --quantization fp8"), Precision::fp8_tensor);
  EXPECT_EQ(weights("deepseek-ai/DeepSeek-V3 -q fp8"), Precision::fp8);
  EXPECT_EQ(weights("Qwen/Qwen3-32B-FP8"), Precision::fp8);
  EXPECT_EQ(weights("nvidia/Llama-3.3-70B-Instruct-FP8"), Precision::fp8_tensor);
  EXPECT_EQ(weights("Qwen/Qwen3-32B-AWQ"), Precision::mxfp4);
  EXPECT_EQ(weights("Qwen/Qwen3-32B --quantization modelopt_fp4"), Precision::nvfp4);
  EXPECT_EQ(weights("Qwen/Qwen3-32B --dtype half"), Precision::fp16);
  EXPECT_EQ(weights("openai/gpt-oss-120b"), Precision::mxfp4);
  EXPECT_THAT(refused_by("vllm", "vllm serve Qwen/Qwen3-32B --quantization quark\n"), HasSubstr("'quark' is not read"));
}

TEST(Engines, TheFileOfTheModelStatesItsCheckpoint) {
  const auto import_quantized = [](const std::string& options, const std::vector<std::string>& overrides) {
    const auto load = [](const std::string&) {
      return load_architecture(tests::shipped("examples/models/llama-3-70b.json")).map([](Architecture model) {
        model.checkpoint = {"nvfp4", "fp8"};
        return model;
      });
    };
    const std::string text = "vllm serve nvidia/Llama-3.3-70B-Instruct-FP8 " + options + "\n";
    return tests::read(
        import_configuration(tests::format_of("vllm"), text, "serve.sh", {overrides, "", "plan.json", load}));
  };
  const std::vector<std::string> own = {"model.config=\"config.json\""};
  for (const char* options : {"", "--quantization modelopt", "--dtype half"}) {
    const Plan plan = import_quantized(options, own).plan;
    EXPECT_EQ(plan.inference.weights, Precision::nvfp4) << options;
    EXPECT_EQ(plan.inference.kv_cache, "fp8") << options;
  }
  EXPECT_EQ(import_quantized("--kv-cache-dtype bfloat16", own).plan.inference.kv_cache, "bf16");
  // A shipped file is not that of a checkpoint whose name has another format.
  EXPECT_EQ(import_quantized("", {}).plan.inference.weights, Precision::fp8_tensor);
  EXPECT_EQ(import_quantized("", {"model.config=\"llama-3-70b\""}).plan.inference.weights, Precision::fp8_tensor);
}

TEST(Engines, CommandsInImagesAndFiles) {
  const Plan plan = of_vllm(
      "export VLLM_ALL2ALL_BACKEND=allgather_reducescatter\n"
      "docker run --gpus all vllm/vllm-openai:v0.11.0 --model Qwen/Qwen3-30B-A3B -tp 2 --no-async-scheduling");
  EXPECT_EQ(plan.parallelism.tensor, 2);
  EXPECT_EQ(plan.inference.engine, "vllm-2025");
  EXPECT_EQ(plan.inference.dispatch, "all-reduce");
  const Plan stray = of_vllm("env VLLM_ALL2ALL_BACKEND=deepep_low_latency vllm serve Qwen/Qwen3-30B-A3B -tp 4 -O3");
  EXPECT_EQ(stray.parallelism.tensor, 4);
  EXPECT_EQ(stray.inference.dispatch, "deepep-2025-06");
  EXPECT_THAT(refused_by("vllm", "python -m sglang.launch_server --model-path Qwen/Qwen3-8B\n"),
              HasSubstr("vllm serve"));
}

TEST(Engines, DraftsAreModulesHeadsTextsOrModels) {
  const auto draft = [](const std::string& config) {
    return of_vllm("vllm serve Qwen/Qwen3-32B --speculative-config '" + config + "'").inference.draft;
  };
  EXPECT_EQ(draft(R"({"method": "eagle3", "model": "x/y", "num_speculative_tokens": 3})"), "eagle");
  EXPECT_EQ(draft(R"({"method": "mtp", "num_speculative_tokens": 1})"), "eagle") << "its file has no module";
  EXPECT_EQ(draft(R"({"method": "ngram", "num_speculative_tokens": 4})"), "ngram");
  EXPECT_EQ(draft(R"({"method": "draft_model", "model": "Qwen/Qwen3-8B", "num_speculative_tokens": 2})"), "qwen3-8b");
  EXPECT_THAT(refused_by("vllm", "vllm serve Qwen/Qwen3-8B --speculative-config '{\"method\": \"mtp\"}'\n"),
              HasSubstr("the tokens that are speculated are not stated"));
  EXPECT_THAT(refused_by("vllm", "vllm serve Qwen/Qwen3-8B --speculative-config '{\"method\": '\n"),
              HasSubstr("is no JSON object"));
}

// Nothing that changes a cost is lost: an option that is not priced has its note.
TEST(Engines, OptionsWithoutAKeyAreNoted) {
  int noted = 0;
  for (const KeyRow& row : tests::format_of("vllm").keys) {
    if (row.meaning != Meaning::not_modeled || row.name.ends_with(".*")) continue;
    const auto read = served_by("vllm", "vllm serve Qwen/Qwen3-8B --" + std::string(row.name) + " 1\n");
    EXPECT_TRUE(std::ranges::any_of(read.notes, [&](const Note& note) { return contains(note.text, row.note); }))
        << row.name;
    ++noted;
  }
  EXPECT_GT(noted, 30);
}

TEST(Engines, WhatIsNotPricedIsSaid) {
  const auto read = served_by("vllm", "vllm serve Qwen/Qwen3-8B --enforce-eager --enable-lora --foo 1 --port 80\n");
  std::string notes;
  for (const Note& note : read.notes) notes += note.text + "\n";
  EXPECT_THAT(notes, HasSubstr("steps of decoding replay CUDA graphs"));
  EXPECT_THAT(notes, HasSubstr("no adapter is computed"));
  EXPECT_THAT(notes, HasSubstr("--foo: unknown"));
  EXPECT_EQ(read.no_cost, 1);
}

}  // namespace
}  // namespace plumbline::model::configurations
