#include "sim/campaign/predicted_run.h"

#include "model/economics/economics.h"
#include "sim/campaign/closed_form.h"

namespace plumbline::sim {

std::int64_t replica_nodes(const model::Plan& plan, std::int64_t gpus_per_node) {
  const auto& degrees = plan.parallelism;
  return model::ceil_div(degrees.tensor * degrees.context * degrees.pipeline, gpus_per_node);
}

std::optional<model::RunCost> predicted_run(const Inputs& inputs, const model::Plan& plan,
                                            const model::StepTimes& step) {
  std::optional<model::CampaignGoodput> goodput;
  if (inputs.campaign && plan.run.tokens) {
    CampaignInput campaign = *inputs.campaign;
    const auto tokens_per_step = static_cast<double>(plan.batch.global_batch_size * plan.batch.sequence_length);
    campaign.replica_nodes = replica_nodes(plan, campaign.gpus_per_node);
    campaign.phases = {{"", *plan.run.tokens, tokens_per_step, step.time_s}};
    const double value = expected_goodput(campaign);
    goodput = {value, value > 0 ? "of the campaign in closed form" : "as the campaign never finishes"};
  }
  return model::run_cost(plan, step.time_s, inputs.cluster, step.gpu_power_w, goodput);
}

}  // namespace plumbline::sim
