// What the service says about itself in the attributes of the page.

const data = document.documentElement.dataset;

export const page = {
  /** The identity provider that issues session tokens. */
  issuer: data["issuer"] ?? "",
  /** The console's OAuth client at the issuer. Empty if people can only sign in with a key or a token. */
  clientID: data["clientId"] ?? "",
  scopes: data["scopes"] || "openid",
  /** Where agents can run. */
  regions: (data["regions"] ?? "").split(",").filter((region) => region !== ""),
  /** Where people reach support: an address of https or mailto. Empty if the operator names none. */
  support: data["support"] ?? "",
  /** The address of the styles of parts that are loaded later. */
  laterStyle: data["later"] ?? "",
  /** The page's address without its fragment, to which the issuer sends people back. */
  address: location.origin + location.pathname,
};
