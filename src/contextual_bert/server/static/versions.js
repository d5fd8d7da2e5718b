// What was said to one version of the model and means something to the next. It draws nothing and asks nothing.

// state: changed in place; before and after: what /v1/schema said of the two versions.
export function fit(state, before, after) {
  const stays = (list, name) => {
    const [old, now] = [before, after].map((schema) => schema[list].find((each) => each.name === name));
    return old?.kind === now?.kind && Boolean(old?.values) === Boolean(now?.values);
  };
  for (const { context } of state.people) {
    for (const name of Object.keys(context)) if (!stays("features", name)) delete context[name];
  }
  const { constraints } = state;
  constraints.conditions = constraints.conditions.filter((each) => stays("attributes", each.attribute));
  if (!stays("attributes", constraints.at_most_one_per)) constraints.at_most_one_per = "";
  if (!stays("attributes", "category")) state.places.forEach((place) => delete place.category);
  if (!stays("attributes", "price")) constraints.max_price = state.together.budget = "";
  if (!after.attributes.length) constraints.in_stock = false;
}
