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
  /** The page's address without its fragment, to which the issuer sends people back. */
  address: location.origin + location.pathname,
};
