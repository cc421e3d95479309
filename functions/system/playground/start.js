// Tokens stay in the page's memory: they are not persisted, and nothing is sent anywhere but to this service.
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#playground",
  deepLinking: true,
  displayRequestDuration: true,
  persistAuthorization: false,
  tryItOutEnabled: true,
  validatorUrl: null,
});
